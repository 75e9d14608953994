//! The cases of the suite. Each tests one promise of the contract of [`Backend`](crate::backend::Backend).

use super::driver::{
    ALL, BLOCK, Driver, GCRA, HOURLY, LINE, Models, PERMITS, QUOTA, Question, SECOND, SEVENTHS,
    START, TIERS, WINDOW,
};
use crate::{
    backend::BackendError,
    batch::Member,
    clock::Timestamp,
    id::IdFormat,
    limit::{LimitName, Limits},
    transaction::{Mode, Operation},
};

fn all(id: u64, cost: u32) -> Vec<Question> {
    ALL.map(|limit| Question::new(limit, id, cost)).to_vec()
}

fn exhausting(limit: usize, id: u64) -> Question {
    Question::new(limit, id, 10).mode(match limit {
        // The line would admit five more units, so only a debit exhausts the bucket. And only a debit blocks a client.
        LINE | BLOCK => Mode::Debit,
        _ => Mode::CheckAndSpend,
    })
}

pub async fn answers_are_in_the_order_of_the_members(driver: Driver) {
    assert!(driver.spends(START, &[exhausting(WINDOW, 1)]).await);
    for index in 0..ALL.len() {
        let mut questions: Vec<_> = (10..)
            .map(|id| Question::new(GCRA, id, 1))
            .take(ALL.len())
            .collect();
        questions[index] = Question::new(WINDOW, 1, 1);
        let answers = driver
            .ask(START, Operation::Check, &questions)
            .await
            .expect("it decides");
        assert!(!answers[index].passed, "{index}");
    }
}

pub async fn denied_batch_changes_nothing(driver: Driver) {
    assert!(driver.spends(START, &[exhausting(GCRA, 1)]).await);
    let mut batch = all(2, 4);
    batch.push(Question::new(GCRA, 1, 1));
    assert!(!driver.spends(START + 1, &batch).await);
    for limit in ALL {
        assert!(
            driver
                .spends(START + 2, &[Question::new(limit, 2, 10)])
                .await,
            "{limit}"
        );
    }
}

pub async fn check_changes_nothing(driver: Driver) {
    for limit in ALL {
        let question = [Question::new(limit, 1, 10)];
        for now in START..START + 4 {
            let answers = driver
                .ask(now, Operation::Check, &question)
                .await
                .expect("it decides");
            assert!(answers[0].passed, "{limit}");
        }
        assert!(driver.spends(START + 4, &question).await, "{limit}");
    }
}

pub async fn members_without_a_vote_deny_nobody(driver: Driver) {
    assert!(driver.spends(START, &[exhausting(WINDOW, 1)]).await);
    for mode in [Mode::SpendOnly, Mode::Observe] {
        let full = Question::new(WINDOW, 1, 1).mode(mode);
        assert!(
            driver
                .spends(START + 1, &[full, Question::new(QUOTA, 1, 1)])
                .await
        );
    }
    let full = Question::new(WINDOW, 1, 1).mode(Mode::CheckOnly);
    assert!(
        !driver
            .spends(START + 1, &[full, Question::new(QUOTA, 1, 1)])
            .await
    );
}

pub async fn simultaneous_spends_admit_the_limit(driver: Driver) {
    for limit in [GCRA, SEVENTHS, WINDOW, QUOTA, PERMITS, TIERS, HOURLY] {
        let tasks = (0..40).map(|_| {
            let driver = driver.clone();
            tokio::spawn(async move { driver.spends(START, &[Question::new(limit, 1, 1)]).await })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut passed = 0;
        for task in tasks {
            passed += u32::from(task.await.expect("no spend panics"));
        }
        assert_eq!(passed, 10, "{limit}");
    }
}

pub async fn simultaneous_batches_are_charged_whole_or_not_at_all(driver: Driver) {
    let one = Question::new(WINDOW, 1, 1);
    let other = Question::new(QUOTA, 2, 1);
    let tasks = (0..40).map(|task| {
        let driver = driver.clone();
        let batch = if task % 2 == 0 {
            [one, other]
        } else {
            [other, one]
        };
        tokio::spawn(async move { driver.spends(START, &batch).await })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut passed = 0;
    for task in tasks {
        passed += u32::from(task.await.expect("no spend panics"));
    }
    assert_eq!(passed, 10);
    assert!(!driver.spends(START, &[one]).await && !driver.spends(START, &[other]).await);
}

pub async fn limits_algorithms_and_ids_have_buckets_of_their_own(driver: Driver) {
    let run = driver.id(0);
    let ids = ["", ":", "~w:", " ", "\n", "ä", "{}", "*"].map(|id| format!("{run}{id}"));
    for by in [GCRA, WINDOW, QUOTA] {
        let limits = [("n1", Some(1)), ("n11", Some(11)), ("a", None), ("A", None)];
        let limits = limits
            .into_iter()
            .fold(Limits::builder(), |builder, (name, number)| {
                let numbered = |number| LimitName::new(name, number, IdFormat::Opaque);
                let name = number.map_or_else(|| name.into(), numbered);
                let limit = driver.limit(by);
                builder.limit(name, limit.clone())
            });
        let limits = limits.build().expect("the limits are right");
        for (id, limit) in ids
            .iter()
            .flat_map(|id| limits.iter().map(move |limit| (id, limit)))
        {
            let member = Member::new(limit, id, 10, Mode::CheckAndSpend);
            let key = member.key();
            for passes in [true, false] {
                let answers = driver.batch(Some(START), Operation::Spend, &[member]).await;
                assert_eq!(answers.expect("it decides")[0].passed, passes, "{key}");
            }
        }
    }
}

pub async fn own_clock_decides_without_another(driver: Driver) {
    for limit in [QUOTA, WINDOW, PERMITS] {
        assert!(
            driver.spends(None, &[exhausting(limit, 1)]).await,
            "{limit}"
        );
        let far = u64::MAX >> 13;
        assert!(driver.spends(far, &[exhausting(limit, 1)]).await, "{limit}");
    }
}

pub async fn instants_at_and_beyond_the_end_are_errors(driver: Driver) {
    let end = Timestamp::END.as_micros();
    for now in [end, end + 1, u64::MAX] {
        let answers = driver.ask(now, Operation::Spend, &all(1, 1)).await;
        assert!(matches!(answers, Err(BackendError::InvalidNow(_))), "{now}");
    }
    assert!(driver.spends(end - 1, &all(1, 1)).await);
}

pub async fn clock_that_steps_back_frees_nobody(driver: Driver) {
    for limit in ALL {
        assert!(
            driver.spends(START, &[exhausting(limit, 1)]).await,
            "limit {limit} is full at first"
        );
        let question = Question::new(limit, 1, 6);
        assert!(
            !driver.spends(START - 60 * SECOND, &[question]).await,
            "{limit}"
        );
    }
    // Units that are taken after the clock has stepped back expire first.
    for (now, cost, passes) in [
        (START, 5, true),
        (START - SECOND, 3, true),
        (START + SECOND, 6, false),
        (START + SECOND, 5, true),
    ] {
        let question = Question::new(WINDOW, 2, cost);
        assert_eq!(driver.spends(now, &[question]).await, passes, "{cost}");
    }
}

pub async fn equality_passes_and_a_microsecond_less_does_not(driver: Driver) {
    // A seventh of a second is 142,857.14 us. A group of tiers needs one microsecond more than its window.
    let waits = [
        (GCRA, 200_000),
        (SEVENTHS, 142_858),
        (WINDOW, 2 * SECOND),
        (QUOTA, 3 * SECOND),
        (BLOCK, 10 * SECOND),
    ];
    for (limit, wait) in waits
        .into_iter()
        .chain([(PERMITS, 4 * SECOND), (TIERS, 20 * SECOND + 1)])
    {
        assert!(
            driver.spends(START, &[exhausting(limit, 1)]).await,
            "{limit}"
        );
        let cost = if limit == TIERS { 10 } else { 1 };
        let question = [Question::new(limit, 1, cost)];
        let is_early = driver.spends(START + wait - 1, &question).await;
        assert!(!is_early, "limit {limit} passes a microsecond too early");
        let is_due = driver.spends(START + wait, &question).await;
        assert!(is_due, "limit {limit} does not pass after its wait");
    }
}

pub async fn callers_wait_in_line_in_their_order(driver: Driver) {
    assert!(driver.spends(START, &[Question::new(LINE, 1, 10)]).await);
    for index in 1..=6 {
        let answers = driver
            .ask(START, Operation::Spend, &[Question::new(LINE, 1, 1)])
            .await;
        let answer = answers.expect("it decides")[0];
        assert_eq!(answer.passed, index <= 5, "{index}");
        if answer.passed {
            let delay = answer.figures.and_then(|figures| figures.delay.duration());
            assert_eq!(delay.map(|delay| delay.as_micros()), Some(index * 200_000));
        }
    }
}

pub async fn empty_batch_is_decided(driver: Driver) {
    assert!(driver.spends(START, &[]).await);
}

pub async fn refund_gives_back_up_to_full(driver: Driver) {
    // In a bucket that is exactly empty, no request waits in line.
    for (limit, spent) in [
        (GCRA, 4),
        (SEVENTHS, 4),
        (LINE, 10),
        (WINDOW, 4),
        (QUOTA, 4),
    ] {
        assert!(
            driver
                .spends(START, &[Question::new(limit, 1, spent)])
                .await
        );
        let refund = [Question::new(limit, 1, 10)];
        for gives_back in [true, false] {
            let answers = driver.ask(START, Operation::Refund, &refund).await;
            assert_eq!(
                answers.expect("it decides")[0].passed,
                gives_back,
                "{limit}"
            );
        }
        assert!(
            driver.spends(START, &refund).await
                && !driver.spends(START, &[Question::new(limit, 1, 6)]).await
        );
    }
}

pub async fn charge_gives_back_and_renews_its_own_permits_only(driver: Driver) {
    let five = Question::new(PERMITS, 1, 5);
    let first = driver
        .ask(START, Operation::Spend, &[five])
        .await
        .expect("it decides")[0];
    assert!(driver.spends(START + SECOND, &[five]).await);
    let renewed = driver
        .ask(START + 3 * SECOND, Operation::Renew, &[five.of(&first)])
        .await;
    let renewed = renewed.expect("it decides")[0];
    assert!(renewed.passed);
    // The other permits expire after five seconds, and the renewed ones after seven.
    assert!(driver.spends(START + 6 * SECOND, &[five]).await);
    assert!(!driver.spends(START + 6 * SECOND, &[five]).await);
    for gives_back in [true, false] {
        let refund = driver
            .ask(START + 6 * SECOND, Operation::Refund, &[five.of(&renewed)])
            .await;
        assert_eq!(refund.expect("it decides")[0].passed, gives_back);
    }
    assert!(driver.spends(START + 6 * SECOND, &[five]).await);
    // After a part of a charge is given back, the rest can be renewed and given back.
    let some = |cost| Question::new(PERMITS, 2, cost);
    let three = driver.ask(START, Operation::Spend, &[some(3)]).await;
    let three = three.expect("it decides")[0];
    for (operation, cost, passes) in [
        (Operation::Refund, 1, true),
        (Operation::Renew, 2, true),
        (Operation::Refund, 3, true),
        (Operation::Renew, 2, false),
    ] {
        let answers = driver.ask(START, operation, &[some(cost).of(&three)]).await;
        assert_eq!(answers.expect("it decides")[0].passed, passes, "{cost}");
    }
}

pub async fn repeated_and_late_messages_about_permits_change_no_other(driver: Driver) {
    let four = Question::new(PERMITS, 1, 4);
    let other = driver.ask(START, Operation::Spend, &[four]).await;
    let other = four.of(&other.expect("it decides")[0]);
    let ours = driver.ask(START, Operation::Spend, &[four]).await;
    let ours = four.of(&ours.expect("it decides")[0]);
    // Spending the same name twice takes one permit, even if there is no room for another one.
    for _ in 0..2 {
        assert!(driver.spends(START + 1, &[ours]).await);
    }
    let three = [Question::new(PERMITS, 1, 3)];
    assert!(!driver.spends(START + 1, &three).await);
    // A second refund and a late renewal find no permit.
    let messages = [
        (Operation::Refund, true),
        (Operation::Refund, false),
        (Operation::Renew, false),
    ];
    for (operation, passes) in messages {
        let answers = driver.ask(START + 1, operation, &[ours]).await;
        assert_eq!(
            answers.expect("it decides")[0].passed,
            passes,
            "{operation:?}"
        );
    }
    let renewed = driver.ask(START + 2, Operation::Renew, &[other]).await;
    assert!(renewed.expect("it decides")[0].passed);
    assert!(
        driver
            .spends(START + 3, &[Question::new(PERMITS, 1, 6)])
            .await
    );
    assert!(
        !driver
            .spends(START + 3, &[Question::new(PERMITS, 1, 1)])
            .await
    );
}

pub async fn renewals_of_one_bucket_are_decided_in_order(driver: Driver) {
    let three = Question::new(PERMITS, 1, 3);
    let mut batch = Vec::new();
    for now in [START, START + 1, START + 2] {
        let answers = driver.ask(now, Operation::Spend, &[three]).await;
        batch.push(three.of(&answers.expect("it decides")[0]));
    }
    let renewed = driver
        .ask(START + 3 * SECOND, Operation::Renew, &batch)
        .await;
    let renewed = renewed.expect("it decides");
    assert!(renewed.iter().all(|answer| answer.passed), "{renewed:?}");
    let two = [Question::new(PERMITS, 1, 2)];
    assert!(!driver.spends(START + 7 * SECOND - 1, &two).await);
    assert!(driver.spends(START + 7 * SECOND, &two).await);
}

pub async fn reset_makes_as_new(driver: Driver) {
    for limit in ALL {
        assert!(
            driver.spends(START, &[exhausting(limit, 1)]).await,
            "{limit}"
        );
        let reset = driver
            .ask(START, Operation::Reset, &[Question::new(limit, 1, 1)])
            .await;
        reset.expect("it resets");
        assert!(
            driver.spends(START, &[Question::new(limit, 1, 10)]).await,
            "{limit}"
        );
    }
}

pub async fn debt_is_paid_before_anything_passes(driver: Driver) {
    let waits = [
        (GCRA, 11 * SECOND / 5),
        (WINDOW, 2 * SECOND),
        (QUOTA, 3 * SECOND),
    ];
    for (limit, wait) in waits {
        assert!(
            driver
                .spends(START, &[Question::new(limit, 1, 20).mode(Mode::Debit)])
                .await
        );
        let question = [Question::new(limit, 1, 1)];
        assert!(!driver.spends(START + wait - 1, &question).await, "{limit}");
        assert!(driver.spends(START + wait, &question).await, "{limit}");
    }
}

pub async fn denied_batch_shows_all_members_as_they_stand(driver: Driver) {
    let mut models = Models::default();
    for batch in [vec![exhausting(GCRA, 1)], all(1, 4), all(2, 4)] {
        let answers = driver
            .ask(START, Operation::Spend, &batch)
            .await
            .expect("it decides");
        assert_eq!(
            answers,
            models.decide(&driver, START, Operation::Spend, &batch, &answers)
        );
        let figures = answers.iter().all(|answer| answer.figures.is_some());
        assert!(figures, "{answers:?}");
    }
}
