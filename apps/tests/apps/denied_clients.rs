//! How the app `dashboard` counts denied clients in bounded memory.

#[path = "../../src/bin/dashboard/denied.rs"]
mod denied;

use tracing_subscriber::layer::SubscriberExt;

use self::denied::{DeniedClients, Ids};

/// Emits the event of a decision, as tollgate does.
fn decided(id: &str, result: &str) {
    tracing::debug!(target: "tollgate::limiter::recorder", limit = "requests", id, result, "decided");
}

fn count(denied: &DeniedClients, events: impl FnOnce()) {
    let subscriber = tracing_subscriber::registry().with(denied.layer());
    tracing::subscriber::with_default(subscriber, events);
}

#[test]
fn most_denied_clients_stay_however_many_there_are() {
    let denied = DeniedClients::default();
    count(&denied, || {
        for nth in 0..20_000 {
            decided(&format!("once-{nth}"), "rejected");
            if nth % 10 == 0 {
                decided("often", "cache_rejected");
            }
        }
    });
    let most = denied.most(usize::MAX, Ids::Shown);
    assert_eq!(most.len(), 1000, "the memory is bounded");
    assert_eq!((&*most[0].id, &*most[0].limit), ("often", "requests"));
    assert!(most[0].denials >= 2000, "{}", most[0].denials);
    for client in &most {
        let at_least = client.denials - client.inherited;
        let truly = if client.id == "often" { 2000 } else { 1 };
        assert!(at_least <= truly && truly <= client.denials, "{client:?}");
    }
    assert!(most.is_sorted_by(|a, b| a.denials >= b.denials));
    let total: u64 = most.iter().map(|client| client.denials).sum();
    assert_eq!(total, 22_000, "each denial is counted once");
}

#[test]
fn only_denials_are_counted() {
    let denied = DeniedClients::default();
    count(&denied, || {
        for result in [
            "acquired",
            "fallback_acquired",
            "shadow_rejected",
            "withheld",
            "skipped",
            "error",
        ] {
            decided("alice", result);
        }
        for result in ["rejected", "blocked", "cache_rejected", "fallback_rejected"] {
            decided("bob", result);
        }
        tracing::debug!(target: "elsewhere", id = "carol", result = "rejected");
    });
    let most = denied.most(10, Ids::Shown);
    let counts: Vec<_> = most
        .iter()
        .map(|client| (&*client.id, client.denials))
        .collect();
    assert_eq!(counts, [("bob", 4)]);
}

#[test]
fn redacted_ids_are_stable_and_different() {
    let denied = DeniedClients::default();
    count(&denied, || {
        ["alice", "bob"]
            .iter()
            .for_each(|id| decided(id, "rejected"));
    });
    let ids = || -> Vec<_> {
        let most = denied.most(10, Ids::Redacted);
        most.into_iter().map(|client| client.id).collect()
    };
    assert_eq!(ids(), ids());
    assert_ne!(ids()[0], ids()[1]);
    assert!(!ids().concat().contains("alice"));
    let other = DeniedClients::default();
    count(&other, || decided("alice", "rejected"));
    assert_ne!(
        other.most(1, Ids::Redacted)[0].id,
        ids()[0],
        "nobody can compute the hash"
    );
}
