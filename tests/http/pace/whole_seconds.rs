//! Servers whose fields have whole seconds only.

use std::time::Duration;

use tollgate::{Limit, response::Headers};

use super::simulated::{WHOLE, World, layer, ms, possible, twenty};

const TIME: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn rate_is_estimated_from_what_was_admitted() {
    for headers in WHOLE {
        for way in [0, 1, 5, 20] {
            let layer = layer(&[("requests", twenty(), 1)]).headers(headers);
            let outcome = World::new(&layer).way(ms(way), ms(0)).run(1, TIME).await;
            let what = (headers, way);
            assert!(outcome.refused_in_a_row() <= 1, "{what:?}");
            outcome.assert_share(possible(5, 20, TIME), 800, &what);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn other_limits_lead_to_no_second_refusal_in_a_row() {
    for (per_second, burst) in [
        (1, 1),
        (3, 1),
        (4, 2),
        (20, 2),
        (20, 3),
        (20, 4),
        (20, 10),
        (50, 7),
        (100, 50),
        (5, 20),
    ] {
        for headers in WHOLE {
            for (way, varies) in [(0, 0), (3, 0), (10, 20)] {
                // `X-RateLimit` says too little of a fast rate for answers that arrive out of order.
                if per_second >= 100 && varies > 0 && headers != Headers::Draft11 {
                    continue;
                }
                let limit = Limit::per_second(per_second).burst(burst);
                let layer = layer(&[("requests", limit, 1)]).headers(headers);
                let outcome = World::new(&layer)
                    .way(ms(way), ms(varies))
                    .run(1, 2 * TIME)
                    .await;
                let what = (per_second, burst, headers, way, varies);
                assert!(outcome.refused_in_a_row() <= 1, "{what:?}: {:?}", outcome.0);
                assert!(outcome.refused() <= 1, "{what:?}: {}", outcome.refused());
                if burst >= 4 && burst <= per_second {
                    let least = if varies == 0 { 800 } else { 600 };
                    let possible = possible(burst, per_second, 2 * TIME);
                    outcome.assert_share(possible, least, &what);
                }
            }
        }
    }
}
