//! Plans in a database: each customer's limit is a column, which changes while the server runs.
//!
//! ```sh
//! cargo run --example database
//! curl -i -H 'x-api-key: key-of-acme' http://127.0.0.1:3000/
//! curl -X PUT -d '600/minute burst 50' http://127.0.0.1:3000/customers/key-of-acme
//! curl -i -H 'x-api-key: key-of-acme' http://127.0.0.1:3000/
//! ```
//!
//! The file `customers.redb` is created with three customers: `key-of-acme` has the default of 60 per minute, `key-of-globex` 600
//! per minute, and `key-of-initech` a quota of 1000 a day. Rows are kept for 30 seconds, so other processes see a change after at
//! most that time. A quota or a window keeps what was spent when its limit changes, and a token bucket the time until it is full.
//!
//! `PUT /customers/{key}` stands for the customers' back office, and needs authentication in a real service.

use std::{
    error::Error,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::{Path as UrlPath, Request, State},
    http::StatusCode,
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, put},
};
use clap::Parser;
use moka::future::Cache;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use tokio::{net::TcpListener, task::spawn_blocking};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, key::ExtensionId,
    limit::LimitsError,
};

/// The customer's id and limit, by API key. An empty text stands for the default limit.
const CUSTOMERS: TableDefinition<'_, &str, (&str, &str)> = TableDefinition::new("customers");

const FIRST: [(&str, &str, &str); 3] = [
    ("key-of-acme", "acme", ""),
    ("key-of-globex", "globex", "600/minute burst 50"),
    ("key-of-initech", "initech", "1000 per calendar day"),
];

type Read<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long a row is kept.
const KEPT: Duration = Duration::from_secs(30);

/// A row.
#[derive(Clone)]
struct Customer {
    id: String,
    limit: Option<Limit>,
}

/// The reason why there is no customer for a key.
enum Missing {
    UnknownKey,
    Failed(Box<dyn Error + Send + Sync>),
}

/// The customers, and the rows that were read a short time ago.
#[derive(Clone)]
struct Customers {
    database: Arc<Database>,
    kept: Cache<String, Customer>,
}

#[derive(Debug, Parser)]
struct Args {
    /// The file of customers, which is made if it does not exist.
    #[arg(default_value = "customers.redb")]
    database: PathBuf,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
}

#[tokio::main]
async fn main() -> Read<()> {
    let args = Args::parse();
    let limiter = Limiter::new(limits()?, MemoryBackend::new());
    let app = app(limiter, Customers::open(&args.database)?);
    let listener = TcpListener::bind(args.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("requests", Limit::per_minute(60))
        .build()
}

fn app(limiter: Limiter, customers: Customers) -> Router {
    let customer = ExtensionId::new(|customer: &Customer| customer.id.clone());
    let requests = Rule::new("requests", customer)
        .limit_from(|parts| parts.extensions.get::<Customer>()?.limit.clone());
    Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(RateLimitLayer::with_limiter(limiter).rule(requests))
        // The outer layer looks customers up. So there is one place that waits, caches and handles errors.
        .layer(from_fn_with_state(customers.clone(), look_up))
        .route("/customers/{key}", put(change))
        .with_state(customers)
}

/// Puts the customer of a request into its extensions.
async fn look_up(State(customers): State<Customers>, mut request: Request, next: Next) -> Response {
    let key = request.headers().get("x-api-key");
    let Some(key) = key.and_then(|key| key.to_str().ok()) else {
        return (StatusCode::UNAUTHORIZED, "send your API key as x-api-key\n").into_response();
    };
    match customers.find(key).await {
        Ok(customer) => {
            request.extensions_mut().insert(customer);
            next.run(request).await
        }
        Err(missing) => match &*missing {
            Missing::UnknownKey => {
                (StatusCode::UNAUTHORIZED, "the API key is not known\n").into_response()
            }
            Missing::Failed(error) => {
                eprintln!("the customer cannot be read: {error}");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        },
    }
}

/// Changes a customer's limit, to a text such as `600/minute burst 50`.
async fn change(
    State(customers): State<Customers>,
    UrlPath(key): UrlPath<String>,
    limit: String,
) -> Response {
    if let Err(error) = limit.parse::<Limit>() {
        return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response();
    }
    match customers.change(key, limit).await {
        Ok(true) => StatusCode::NO_CONTENT.into_response(),
        Ok(false) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => {
            eprintln!("the customer cannot be changed: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

impl Customers {
    /// Opens a file, or creates one with some customers.
    fn open(path: &Path) -> Read<Self> {
        let database = Database::create(path)?;
        let transaction = database.begin_write()?;
        {
            let mut table = transaction.open_table(CUSTOMERS)?;
            if table.first()?.is_none() {
                for (key, id, limit) in FIRST {
                    table.insert(key, (id, limit))?;
                }
            }
        }
        transaction.commit()?;
        Ok(Self {
            database: Arc::new(database),
            kept: Cache::builder()
                .time_to_live(KEPT)
                .max_capacity(100_000)
                .build(),
        })
    }

    /// Finds a customer, in memory or else in the database, which is asked once for simultaneous requests. Errors and unknown keys
    /// are not kept, because clients can invent any number of keys.
    async fn find(&self, key: &str) -> Result<Customer, Arc<Missing>> {
        let row = self.clone().row(key.to_owned());
        self.kept.try_get_with_by_ref(key, row).await
    }

    async fn row(self, key: String) -> Result<Customer, Missing> {
        let row = spawn_blocking(move || self.read(&key)).await;
        let row = row.unwrap_or_else(|panicked| Err(panicked.into()));
        row.map_err(Missing::Failed)?.ok_or(Missing::UnknownKey)
    }

    fn read(&self, key: &str) -> Read<Option<Customer>> {
        let table = self.database.begin_read()?.open_table(CUSTOMERS)?;
        let Some(row) = table.get(key)? else {
            return Ok(None);
        };
        let (id, limit) = row.value();
        let limit = (!limit.is_empty()).then(|| limit.parse()).transpose()?;
        let id = id.to_owned();
        Ok(Some(Customer { id, limit }))
    }

    /// Changes the limit of a customer. Returns whether there is one.
    async fn change(self, key: String, limit: String) -> Read<bool> {
        let kept = self.kept.clone();
        let row = key.clone();
        let changed = spawn_blocking(move || self.write(&row, &limit)).await??;
        kept.invalidate(&key).await;
        Ok(changed)
    }

    fn write(&self, key: &str, limit: &str) -> Read<bool> {
        let transaction = self.database.begin_write()?;
        {
            let mut table = transaction.open_table(CUSTOMERS)?;
            let id = table.get(key)?.map(|row| row.value().0.to_owned());
            let Some(id) = id else {
                return Ok(false);
            };
            table.insert(key, (&*id, limit))?;
        }
        transaction.commit()?;
        Ok(true)
    }
}
