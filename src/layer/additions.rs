use bytes::Bytes;
use http::{Method, Response, StatusCode, request::Parts};
use http_body::Body;

use super::{assessment::Assessment, body::ResponseBody, settlement::Settlement, task::Closing};
use crate::{response::Fields, rule::Outcome};

/// What a request that proceeds leaves on itself and its response, and what is open until it has ended.
#[derive(Debug, Default)]
pub(super) struct ResponseAdditions {
    pub(super) assessment: Option<Assessment>,
    /// Whether the request carries the assessment.
    pub(super) is_for_request: bool,
    /// Whether the response carries it.
    pub(super) is_for_response: bool,
    pub(super) fields: Option<Fields>,
    pub(super) settlement: Option<Box<Settlement>>,
    /// Whether the request asks for a tunnel.
    pub(super) connects: bool,
}

impl ResponseAdditions {
    /// Puts the assessment on a request for its handler.
    pub(super) fn announce(&mut self, request: &mut Parts) {
        self.connects = request.method == Method::CONNECT;
        if !self.is_for_request {
            return;
        }
        let assessment = match self.is_for_response {
            true => self.assessment.clone(),
            false => self.assessment.take(),
        };
        if let Some(assessment) = assessment {
            request.extensions.insert(assessment);
        }
    }

    /// Settles what is charged by how the inner service has ended. Returns what has to be waited for.
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
                let closing = settlement.close(Outcome::Response(&head, 0, false), false);
                (Ok(Response::from_parts(head, body)), closing)
            }
            Err(error) => (Err(error), settlement.close(Outcome::Failed, true)),
        };
        if settlement.is_closed() {
            self.settlement = None;
        }
        (ended, closing)
    }

    /// Puts the fields on a response and, if it is to carry it and no inner layer has put its own, the assessment.
    pub(super) fn put_on<B>(self, mut response: Response<B>) -> Response<B> {
        if let Some(fields) = self.fields {
            fields.put_on(response.headers_mut());
        }
        if self.is_for_response
            && let Some(assessment) = self.assessment
            && response.extensions().get::<Assessment>().is_none()
        {
            response.extensions_mut().insert(assessment);
        }
        response
    }

    /// The same for the inner service's response, whose body settles what is still open.
    #[inline]
    pub(super) fn put_on_inner<B: Body<Data = Bytes>, E>(
        mut self,
        ended: Result<Response<B>, E>,
    ) -> Result<Response<ResponseBody<B>>, E> {
        let settlement = self.settlement.take();
        let connects = self.connects;
        let response = self.put_on(ended?);
        Ok(match settlement {
            None => response.map(ResponseBody::inner),
            // The body ends now, and the connection goes on. When that ends, only the handler sees.
            Some(mut settlement) if becomes_a_tunnel(connects, response.status()) => {
                settlement.leave();
                response.map(ResponseBody::inner)
            }
            Some(settlement) => {
                let (head, body) = response.into_parts();
                let body = ResponseBody::watched(body, head.clone(), *settlement);
                Response::from_parts(head, body)
            }
        })
    }
}

/// Whether the connection, or a stream of it, becomes something else (RFC 9110, sections 9.3.6 and 15.2.2; RFC 8441).
fn becomes_a_tunnel(connects: bool, status: StatusCode) -> bool {
    status == StatusCode::SWITCHING_PROTOCOLS || connects && status.is_success()
}
