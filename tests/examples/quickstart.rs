//! The example `quickstart`: it prints its limit and a command to try, and refuses the client beyond that limit.

use crate::programs::Program;

#[test]
fn quickstart_prints_its_limit_and_refuses_beyond_it() {
    let program = Program::start_anywhere("quickstart");
    let server = program.next_server();
    let serves = program.next_line();
    assert!(serves.contains("10 per 1s, 20 at once"), "{serves}");
    let command = program.next_line();
    let command = command.strip_prefix("try: ").expect(&command);
    assert!(command.contains(&server.url()) && command.contains("/?[1-30]"));
    assert!(command.contains("%{http_code}"), "{command}");
    for response in server.get_often(20, "/", &[]) {
        assert_eq!((response.status, &*response.body), (200, "hello"));
    }
    // A client that asks without a pause is refused before long, as it gets ten per second.
    let is_refused = |_| {
        let responses = server.get_often(100, "/", &[]);
        responses.iter().any(|response| response.status == 429)
    };
    assert!((0..100).any(is_refused));
}
