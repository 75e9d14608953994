//! Limits made in code: what is wrong with them, and how names, defaults and overrides come together.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use tollgate::{
    Limit, Limits,
    id::IdFormat,
    limit::{LimitName, LimitsBuilder},
};

const ONE: Limit = Limit::per_second(1);

fn orders() -> LimitName {
    LimitName::new("orders", 6, IdFormat::RegId)
}

fn expect(builder: &LimitsBuilder, message: &str) {
    assert_eq!(builder.build().unwrap_err().to_string(), message);
}

#[test]
fn mistaken_names_say_what_to_change() {
    let twice = "limit `a`: it is defined twice, first in the code: remove one of them";
    expect(&Limits::builder().limit("a", ONE).limit("a", ONE), twice);
    expect(&Limits::builder().name("a").name("a"), twice);
    expect(
        &Limits::builder()
            .name(orders())
            .name("b")
            .name(LimitName::new("d", 6, IdFormat::Opaque)),
        "limit `d`: it has the number 6, which `orders` has too: give one of them a number that no \
         limit has had before",
    );
    expect(
        &Limits::builder().name("b c"),
        "limit `b c`: `b c` is not a limit name: start with an ASCII letter, and continue with letters, \
         digits, `_`, `.` or `-`",
    );
    expect(
        &Limits::builder()
            .name(orders())
            .limit(LimitName::new("orders", 7, IdFormat::RegId), ONE),
        "limit `orders`: the code has number 6 and id regId for it: write the same, or neither",
    );
}

#[test]
fn mistaken_overrides_say_what_to_change() {
    expect(
        &Limits::builder()
            .name("order")
            .override_for("orders", "7", ONE),
        "limit `orders`: id `7`: no limit has this name: did you mean `order`?",
    );
    expect(
        &Limits::builder()
            .name(orders())
            .override_for("orders", "07", ONE),
        "limit `orders`: `07` is not an id in the format regId: use a whole number up to \
         18446744073709551615, without sign or leading zeros",
    );
    expect(
        &Limits::builder()
            .name(orders())
            .override_for("orders", "7", ONE)
            .override_for("orders", "7", ONE),
        "limit `orders`: id `7`: it has an override already, for `7`: remove one of them",
    );
}

#[test]
fn first_mistake_is_told_in_the_order_of_assembly() {
    let builder = Limits::builder()
        .override_for("a", "1", ONE)
        .limit("b c", ONE)
        .name("d e");
    assert!(
        builder
            .build()
            .unwrap_err()
            .to_string()
            .starts_with("limit `d e`")
    );
}

#[test]
fn declared_names_get_their_limits_later() {
    let limits = Limits::builder()
        .limit("orders", ONE)
        .name(orders())
        .build()
        .unwrap();
    let orders = limits.get("orders").unwrap();
    assert_eq!((orders.name.number(), &orders.limit), (Some(6), &Some(ONE)));
}
