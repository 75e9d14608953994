//! A server for trying the gateway: a parrot, which repeats the last message word by word. Each word is a token.

use std::{convert::Infallible, io, time::Duration};

use axum::{
    Json, Router,
    response::{
        IntoResponse, Response,
        sse::{self, Sse},
    },
    routing::post,
};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{net::TcpListener, time};

/// The time that a word of a stream takes.
const WORD: Duration = Duration::from_millis(50);

#[derive(Deserialize)]
struct Question {
    model: String,
    messages: Vec<Message>,
    max_tokens: Option<usize>,
    #[serde(default)]
    stream: bool,
}

#[derive(Deserialize)]
struct Message {
    content: String,
}

/// Starts the parrot, and returns its address.
pub(crate) async fn start() -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = Router::new().route("/v1/chat/completions", post(answer));
    tokio::spawn(async { axum::serve(listener, app).await });
    Ok(format!("http://{address}"))
}

async fn answer(Json(question): Json<Question>) -> Response {
    let heard = question.messages.iter();
    let heard: usize = heard.map(|message| words(&message.content).count()).sum();
    let last = question.messages.last();
    let last = last.map_or("", |message| &message.content);
    let most = question.max_tokens.unwrap_or(usize::MAX);
    let said: Vec<_> = words(last).take(most).map(str::to_owned).collect();
    let usage = json!({
        "prompt_tokens": heard,
        "completion_tokens": said.len(),
        "total_tokens": heard + said.len(),
    });
    if question.stream {
        stream_of(question.model, said, usage)
    } else {
        let message = json!({"role": "assistant", "content": said.concat()});
        let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
        let object = "chat.completion";
        let answer = json!({
            "id": "parrot-1", "object": object, "created": 0, "model": question.model,
            "choices": [choice], "usage": usage,
        });
        Json(answer).into_response()
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
        .filter(|word| !word.trim().is_empty())
}

/// The answer as events, the last with the usage, which the gateway always asks for.
fn stream_of(model: String, said: Vec<String>, usage: Value) -> Response {
    let chunk = move |choices: Value, usage: Value| {
        let object = "chat.completion.chunk";
        let chunk = json!({
            "id": "parrot-1", "object": object, "created": 0, "model": model,
            "choices": choices, "usage": usage,
        });
        chunk.to_string()
    };
    let delta = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let mut chunks = vec![chunk(
        delta(json!({"role": "assistant"}), Value::Null),
        Value::Null,
    )];
    let words = said
        .into_iter()
        .map(|word| delta(json!({"content": word}), Value::Null));
    chunks.extend(words.map(|word| chunk(word, Value::Null)));
    chunks.push(chunk(delta(json!({}), json!("stop")), Value::Null));
    chunks.push(chunk(json!([]), usage));
    chunks.push("[DONE]".to_owned());
    let events = stream::iter(chunks).then(async |chunk| {
        time::sleep(WORD).await;
        Ok::<_, Infallible>(sse::Event::default().data(chunk))
    });
    Sse::new(events).into_response()
}
