include!("pages/webhooks.rs");

use std::sync::{Arc, Mutex};

use tokio::{task::JoinSet, time::Instant};
use tollgate::{Limiter, MemoryBackend, clock::TokioClock};

#[test]
fn rate_of_a_receiver_holds_in_any_second() {
    let limits = limits().unwrap();
    let limit = limits.get("webhooks").unwrap().limit.as_ref().unwrap();
    assert_eq!(limit.most_within(Duration::from_secs(1)), Some(5));
    let burst = Limit::per_second(5);
    assert_eq!(
        burst.most_within(Duration::from_secs(1)),
        Some(9),
        "as the page says"
    );
}

#[tokio::test(start_paused = true)]
async fn burst_of_events_is_no_burst_at_the_receiver() {
    let limiter = Limiter::new(limits().unwrap(), MemoryBackend::new());
    let webhooks = limiter
        .with_clock(TokioClock::default())
        .limit("webhooks")
        .unwrap();
    let (began, sent) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let mut deliveries = JoinSet::new();
    for _ in 0..310 {
        let (webhooks, sent) = (webhooks.clone(), Arc::clone(&sent));
        deliveries.spawn(async move {
            let send = async { sent.lock().unwrap().push(began.elapsed()) };
            deliver(&webhooks, "example.com", send).await.unwrap()
        });
    }
    let deliveries = deliveries.join_all().await;
    let later = deliveries
        .iter()
        .filter(|delivery| **delivery != Delivery::Sent);
    let later: Vec<_> = later.collect();
    let fifth = Duration::from_millis(200);
    assert_eq!(later, [&Delivery::Later(fifth); 9]);
    let expected = (0..301_u32).map(|number| fifth * number);
    assert_eq!(*sent.lock().unwrap(), expected.collect::<Vec<_>>());
}
