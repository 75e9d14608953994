use std::io;

use actix_web::{
    App, Error, HttpResponse, HttpServer,
    body::MessageBody,
    dev::{ServiceRequest, ServiceResponse},
    error::ErrorInternalServerError,
    middleware::{Next, from_fn},
    web,
};
use tollgate::{
    ClientIp,
    limiter::{LimitHandle, NotAdmitted},
};

async fn limited(
    requests: web::Data<LimitHandle>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let peer = request.peer_addr();
    let peer = peer.ok_or_else(|| ErrorInternalServerError("no peer address"))?;
    match requests.admit(ClientIp::id(peer.ip()).as_str()).await {
        Ok(_) => Ok(next.call(request).await?.map_into_left_body()),
        Err(denied) => Ok(request
            .into_response(refusal(&denied))
            .map_into_right_body()),
    }
}

/// A 429 if the limit denies the request, and a 503 if the store does not answer.
fn refusal(denied: &NotAdmitted) -> HttpResponse {
    let Some(decision) = denied.decision() else {
        return HttpResponse::ServiceUnavailable().finish();
    };
    let mut response = HttpResponse::TooManyRequests();
    if let Some(secs) = decision.retry_after_secs() {
        response.insert_header(("retry-after", secs));
    }
    response.body(denied.to_string())
}

async fn serve(requests: LimitHandle) -> io::Result<()> {
    let requests = web::Data::new(requests);
    HttpServer::new(move || {
        App::new()
            .app_data(requests.clone())
            .wrap(from_fn(limited))
            .route("/", web::get().to(|| async { "hello" }))
    })
    .bind("127.0.0.1:3000")?
    .run()
    .await
}

// The page ends here.

use actix_web::test::{TestRequest, call_service, init_service, read_body};
use tollgate::{Limit, Limiter, Limits, MemoryBackend, clock::ManualClock};

#[actix_web::test]
async fn third_request_of_a_client_is_refused() {
    let limits = Limits::builder().limit("requests", Limit::per_minute(2));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let requests = web::Data::new(limiter.limit("requests").unwrap());
    let app = App::new().app_data(requests).wrap(from_fn(limited));
    let app = init_service(app.route("/", web::get().to(|| async { "hello" }))).await;
    let get = async |peer: &str| {
        let request = TestRequest::get().peer_addr(peer.parse().unwrap());
        call_service(&app, request.to_request()).await
    };
    for peer in ["[2001:db8::1]:1", "[2001:db8::2]:2"] {
        assert_eq!(get(peer).await.status(), 200);
    }
    let refused = get("[2001:db8::3]:3").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers().get("retry-after").unwrap(), "30");
    let text = "too many requests (2 per minute, 2 at once) from 2001:db8::: retry in 30 s";
    assert_eq!(read_body(refused).await, text);
    assert_eq!(get("203.0.113.7:4").await.status(), 200);
    // It is compiled, and this test does not listen.
    let _ = serve;
}
