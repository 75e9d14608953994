use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Body;

use super::{
    assessment::Assessment, body::ResponseBody, request_permits::RequestPermits,
    settlement::Settlement,
};
use crate::{response::Fields, rule::EndingKind, task::Closing};

/// Additions to the response of a request that proceeds, and the charges that are open until it has ended.
#[derive(Debug, Default)]
pub(super) struct ResponseAdditions {
    pub(super) assessment: Option<Assessment>,
    pub(super) fields: Option<Fields>,
    pub(super) settlement: Option<Box<Settlement>>,
    pub(super) permits: Option<RequestPermits>,
}

impl ResponseAdditions {
    /// Settles charges by the outcome of the inner service. Returns the corrections that must be awaited.
    pub(super) fn settle<B, E>(
        &mut self,
        ended: Result<Response<B>, E>,
    ) -> (Result<Response<B>, E>, Option<Closing>) {
        let Some(settlement) = &mut self.settlement else {
            return (ended, None);
        };
        let (ended, closing) = match ended {
            Ok(response) => {
                let (head, body) = response.into_parts();
                let closing = settlement.close(EndingKind::Response(&head, 0, false), false);
                (Ok(Response::from_parts(head, body)), closing)
            }
            Err(error) => (Err(error), settlement.close(EndingKind::Failed, true)),
        };
        if settlement.is_closed() {
            self.settlement = None;
        }
        (ended, closing)
    }

    /// Puts the fields on a response and, unless an inner layer has put its own, the assessment.
    #[inline]
    pub(super) fn put_on<B>(&mut self, response: &mut Response<B>) {
        if let Some(fields) = self.fields.take() {
            fields.put_on(response.headers_mut());
        }
        if let Some(assessment) = self.assessment.take()
            && response.extensions().get::<Assessment>().is_none()
        {
            response.extensions_mut().insert(assessment);
        }
    }

    /// Finishes the response of the inner service. The end of its body settles the charges that are still open.
    #[inline(always)]
    pub(super) fn put_on_inner<B: Body<Data = Bytes>>(
        &mut self,
        response: Response<B>,
    ) -> Response<ResponseBody<B>> {
        match self.is_empty() {
            true => response.map(ResponseBody::inner),
            false => self.add_to_inner(response),
        }
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.fields.is_none()
            && self.assessment.is_none()
            && self.settlement.is_none()
            && self.permits.is_none()
    }

    fn add_to_inner<B: Body<Data = Bytes>>(
        &mut self,
        mut response: Response<B>,
    ) -> Response<ResponseBody<B>> {
        self.put_on(&mut response);
        let permits = self.permits.take();
        let response = match self.settlement.take() {
            None => response.map(ResponseBody::inner),
            // The body ends now, but the connection continues as a tunnel. Only the handler sees the end of that.
            Some(mut settlement) if becomes_a_tunnel(&settlement, response.status()) => {
                settlement.leave();
                response.map(ResponseBody::inner)
            }
            Some(settlement) => {
                let (head, body) = response.into_parts();
                let body = ResponseBody::watched(body, head.clone(), *settlement);
                Response::from_parts(head, body)
            }
        };
        match permits {
            None => response,
            Some(permits) => response.map(|body| body.with_permits(permits)),
        }
    }
}

/// Returns whether the connection, or a stream of it, is upgraded (RFC 9110, sections 9.3.6 and 15.2.2; RFC 8441).
fn becomes_a_tunnel(settlement: &Settlement, status: StatusCode) -> bool {
    status == StatusCode::SWITCHING_PROTOCOLS || settlement.is_connect() && status.is_success()
}
