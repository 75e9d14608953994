//! The example `database`: each customer has the limit of its row, and a changed row holds from then on.

use crate::programs::{Program, Response, file};

#[test]
fn plans_are_rows_that_change_while_the_server_runs() {
    let file = file("customers.redb", "");
    let program = Program::start("database", &[&*file, "--listen", "127.0.0.1:0"]);
    let server = program.next_server();
    let get = |key: &str| server.get("/", &[("x-api-key", key)]);
    let field = |key: &str, name: &str| get(key).header(name).map(str::to_owned);
    let policy = |key: &str| field(key, "ratelimit-policy").unwrap();
    assert_eq!(policy("key-of-acme"), "\"requests\";q=60;w=60");
    assert_eq!(policy("key-of-globex"), "\"requests\";q=50;w=5");
    assert_eq!(policy("key-of-initech"), "\"requests\";q=1000;w=86400");
    assert_eq!(get("invented").status, 401);

    let put = |key: &str, limit: &str| {
        let request = server.request("PUT", &format!("/customers/{key}"));
        Response::to(request.body(limit.to_owned())).status
    };
    assert_eq!(put("key-of-acme", "2 per 24h from first use"), 204);
    assert_eq!(put("nobody", "2 per 24h from first use"), 404);
    assert_eq!(put("key-of-acme", "2 per fortnight"), 400);
    let statuses: Vec<_> = (0..3).map(|_| get("key-of-acme").status).collect();
    assert_eq!(statuses, [200, 200, 429], "a quota has a bucket of its own");
    assert_eq!(put("key-of-acme", "3 per 24h from first use"), 204);
    let statuses: Vec<_> = (0..2).map(|_| get("key-of-acme").status).collect();
    assert_eq!(statuses, [200, 429], "what was spent stays spent");
}
