use std::error::Error;

use tollgate::limiter::LimitHandle;

/// Called once for each event. Its caller builds the limiter once, and keeps it between calls.
async fn handle(exports: &LimitHandle, account: &str) -> Result<String, Box<dyn Error>> {
    let decision = exports.admit(account).await?;
    let exported = export(account).await;
    if exported.is_err()
        && let Some(receipt) = decision.receipt()
    {
        exports.refund_receipt(account, receipt).await?;
    }
    // Nothing runs between two calls, so what runs in the background ends here.
    exports.limiter().close().await?;
    exported
}

async fn export(account: &str) -> Result<String, Box<dyn Error>> {
    if account == "nobody" {
        return Err("there is no such account".into());
    }
    Ok(format!("the export of {account}"))
}

// The page ends here.

use tollgate::{Limit, Limiter, Limits, MemoryBackend};

#[tokio::test]
async fn failures_are_given_back_and_calls_go_on_after_close() {
    let limits = Limits::builder().limit("exports", Limit::per_hour(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let exports = limiter.limit("exports").unwrap();
    for _ in 0..2 {
        let failed = handle(&exports, "nobody").await.unwrap_err();
        assert_eq!(failed.to_string(), "there is no such account");
    }
    assert!(handle(&exports, "alice").await.is_ok());
    let denied = handle(&exports, "alice").await.unwrap_err().to_string();
    let text = "limit `exports` exceeded (1 per hour, 1 at once) from alice: retry in 60 minutes";
    assert_eq!(denied, text);
}
