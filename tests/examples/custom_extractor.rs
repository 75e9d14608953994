//! The example `custom_extractor`: neither other spellings of a tenant nor invented keys evade a limit.

use crate::programs::Program;

#[test]
fn spellings_of_a_tenant_and_invented_keys_evade_nothing() {
    let program = Program::start_anywhere("custom_extractor");
    let server = program.next_server();
    let get = |path: &str, key: &str| server.get(path, &[("x-api-key", key)]);
    let spellings = ["/t/acme/orders", "/t/%61cme/orders", "/t/acm%65/orders"];
    for (i, path) in spellings.into_iter().cycle().take(10).enumerate() {
        let response = get(path, ["7b3e2f", "90d1c4"][i % 2]);
        assert_eq!(
            (response.status, &*response.body),
            (200, "the orders of acme\n")
        );
    }
    for path in spellings {
        assert_eq!(get(path, "7b3e2f").status, 429, "{path}");
    }
    for i in 0..5 {
        assert_eq!(get("/t/other/orders", &format!("invented-{i}")).status, 401);
    }
    assert_eq!(get("/elsewhere", "7b3e2f").status, 404);
}
