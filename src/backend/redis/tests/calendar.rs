//! The script compares its own clock with the periods of a calendar that were sent.

use std::time::SystemTime;

use super::{
    agreement::{call, connect},
    redis_support::Server,
};
use crate::{
    backend::redis::{
        error::Failure,
        keys::KeyForm,
        protocol::{self, Call},
    },
    batch::{Batch, Member},
    clock::Timestamp,
    limit::{Limit, Limits},
    quota::Per,
    transaction::{Mode, Operation},
};

const HOUR: u64 = 3_600_000_000;

#[tokio::test]
async fn script_outside_of_the_given_periods_returns_its_time() {
    let server = Server::start();
    let connection = connect(&server).await;
    let limits = Limits::builder().limit("hourly", Limit::quota(10, Per::Hour));
    let limits = limits.build().unwrap();
    let ours = Timestamp::from(SystemTime::now()).as_micros();
    let hourly = limits.get("hourly").unwrap();
    let member = [Member::new(hourly, "a", 4, Mode::CheckAndSpend)];
    let batch = Batch::new(Operation::Spend, &member);
    let ask = async |around| {
        let call_around = Call::new(&batch, &KeyForm::default(), || around);
        let reply = call(&connection, &[&call_around]).await;
        protocol::decode(&reply, 1).unwrap().remove(0)
    };
    // The second time, the bucket is used, and its end has to be compared with the periods.
    for _ in 0..2 {
        for far in [ours - 3 * HOUR, ours + 3 * HOUR] {
            match ask(far).await {
                Err(Failure::Clock(theirs)) => assert!(theirs >= ours),
                reply => panic!("{reply:?}"),
            }
        }
        // An estimate of the time that is in the next period is near enough.
        let reply = ask(ours + HOUR).await.unwrap();
        assert!(reply.answers(&batch).unwrap()[0].passed);
    }
}
