//! Requests to programs.

use std::sync::LazyLock;

use reqwest::{Client, RequestBuilder, header::HeaderMap, redirect::Policy};
use serde_json::Value;
use tokio::{runtime::Runtime, task::JoinHandle};

use crate::eventually::PATIENCE;

/// The runtime of the client.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("there are threads"));

/// The client of all tests.
static CLIENT: LazyLock<Client> = LazyLock::new(|| {
    let client = Client::builder().redirect(Policy::none()).no_proxy();
    client.timeout(PATIENCE).build().expect("it can be built")
});

/// Runs a future to its end on the runtime of the client.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// The address at which a program listens.
pub(crate) struct Server(pub(super) String);

impl Server {
    pub(crate) fn address(&self) -> &str {
        &self.0
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0)
    }

    /// Begins a request, which [`Response::to`] and [`Pending::new`] send.
    pub(crate) fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = method.parse().expect("a method");
        CLIENT.request(method, format!("http://{}{path}", self.0))
    }

    /// Sends one request with fields of header and a body.
    pub(crate) fn send<V: AsRef<[u8]>>(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, V)],
        body: impl AsRef<[u8]>,
    ) -> Response {
        let mut request = self.request(method, path);
        for (name, value) in headers {
            request = request.header(*name, value.as_ref());
        }
        Response::to(request.body(body.as_ref().to_vec()))
    }

    /// Sends one request without a body.
    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.send("GET", path, headers, "")
    }

    /// Sends this number of requests, one after the other.
    pub(crate) fn get_often(
        &self,
        times: usize,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Vec<Response> {
        (0..times).map(|_| self.get(path, headers)).collect()
    }
}

/// The answer of a program.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: HeaderMap,
    pub(crate) body: String,
}

impl Response {
    /// The answer to a request.
    pub(crate) fn to(request: RequestBuilder) -> Self {
        block_on(async {
            let answer = request.send().await.expect("the program answers");
            Self::read(answer).await
        })
    }

    async fn read(answer: reqwest::Response) -> Self {
        Self {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            body: answer.text().await.expect("the program sends the body"),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let value = self.headers.get(name)?;
        Some(value.to_str().expect("it is text"))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect(&self.body)
    }
}

/// A request whose answer is read later. Its client leaves when this is dropped.
pub(crate) struct Pending(JoinHandle<reqwest::Response>);

impl Pending {
    pub(crate) fn new(request: RequestBuilder) -> Self {
        Self(RUNTIME.spawn(async { request.send().await.expect("the program answers") }))
    }

    /// Whether the answer has begun.
    pub(crate) fn is_answered(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits until the answer has ended.
    pub(crate) fn response(self) -> Response {
        let Stream(answer) = self.stream();
        block_on(Response::read(answer))
    }

    /// Waits until the answer begins.
    pub(crate) fn stream(mut self) -> Stream {
        let answer = block_on(&mut self.0);
        Stream(answer.expect("the request is sent"))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer whose body is read as it comes. Its client leaves when this is dropped.
pub(crate) struct Stream(pub(crate) reqwest::Response);

impl Stream {
    /// The next bytes of the body, up to a length, or fewer if it ends before.
    pub(crate) fn read(&mut self, length: usize) -> String {
        let mut read = Vec::new();
        block_on(async {
            while read.len() < length
                && let Some(part) = self.0.chunk().await.expect("the stream goes on")
            {
                read.extend(part);
            }
        });
        String::from_utf8(read).expect("it is text")
    }
}
