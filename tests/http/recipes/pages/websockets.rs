use axum::{
    Extension, Router,
    extract::{
        State,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code},
    },
    response::Response,
    routing::get,
};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule,
    layer::Assessment,
    limit::LimitsError,
    limiter::{LimitHandle, LimiterError},
};

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("connections", Limit::per_minute(10))
        .limit("messages", Limit::per_second(5).burst(10))
        .build()
}

fn app(limiter: Limiter) -> Result<Router, LimiterError> {
    let messages = limiter.limit("messages")?;
    let connections = Rule::new("connections", ClientIp::peer());
    let layer = RateLimitLayer::with_limiter(limiter)
        .rule(connections)
        .extensions(true);
    Ok(Router::new()
        .route("/echo", get(upgrade).route_layer(layer))
        .with_state(messages))
}

async fn upgrade(
    upgrade: WebSocketUpgrade,
    State(messages): State<LimitHandle>,
    Extension(assessment): Extension<Assessment>,
) -> Response {
    // Messages are charged to the client that the connection was charged to.
    let client = assessment.of("connections");
    let client = client.map_or_else(String::new, |client| client.id.to_string());
    upgrade.on_upgrade(|socket| echo(socket, messages, client))
}

async fn echo(mut socket: WebSocket, messages: LimitHandle, client: String) {
    while let Some(Ok(message)) = socket.recv().await {
        if matches!(message, Message::Close(_)) {
            return;
        }
        let (code, reason) = match messages.spend(&client).await {
            Ok(decision) if decision.allowed() => {
                if socket.send(message).await.is_err() {
                    return;
                }
                continue;
            }
            Ok(_) => (close_code::POLICY, "too many messages"),
            Err(_) => (close_code::AGAIN, "try again later"),
        };
        let reason = reason.into();
        let _ = socket
            .send(Message::Close(Some(CloseFrame { code, reason })))
            .await;
        return;
    }
}
