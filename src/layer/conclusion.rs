use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;

use super::{additions::ResponseAdditions, task::Closing};

/// What becomes of a request.
pub(super) enum Conclusion {
    Proceed(ResponseAdditions),
    /// Boxed, so that a request that proceeds does not carry the room for it around.
    Refuse(Box<FinalResponse>),
}

/// The response to a refused request, and what has to be waited for before.
pub(super) struct FinalResponse {
    pub(super) response: Response<Bytes>,
    pub(super) closing: Option<Closing>,
}

impl FinalResponse {
    /// Takes the response out, once what has to be waited for is done.
    pub(super) fn poll(
        this: &mut Option<Box<Self>>,
        cx: &mut Context<'_>,
    ) -> Poll<Response<Bytes>> {
        if let Some(closing) = this.as_mut().and_then(|this| this.closing.as_mut()) {
            ready!(closing.as_mut().poll(cx));
        }
        let this = this.take().expect("polled again after it was ready");
        Poll::Ready(this.response)
    }
}

impl Conclusion {
    pub(super) fn refuse(response: Response<Bytes>) -> Self {
        let closing = None;
        Self::Refuse(Box::new(FinalResponse { response, closing }))
    }
}
