//! The body of `POST /v1/decide`, and its possible mistakes.

use std::{fmt, marker::PhantomData};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde_json::Value;
use tollgate::{
    Limit, Limiter, Limits, Transaction,
    clock::Timestamp,
    transaction::{Mode, Receipt},
};

use crate::{args::ClockSource, receipts, refusal::Refusal};

/// The operation on the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Check,
    Spend,
    Refund,
    Renew,
    Reset,
}

/// A request that is valid by itself, regardless of the limits.
pub(crate) struct Request {
    pub(crate) op: Op,
    /// The instant of the decision, if requests bring their own.
    pub(crate) now: Option<Timestamp>,
    pub(crate) transactions: Vec<Asked>,
}

impl Request {
    pub(crate) fn parse(body: &[u8], clock: ClockSource) -> Result<Self, Refusal> {
        let Object(raw) = serde_json::from_slice::<Object<RawRequest>>(body)
            .map_err(|error| Refusal::bad_request("invalid_json", error.to_string()))?;
        let transactions = raw.transactions.into_iter().enumerate();
        let op = op(&raw.op)?;
        Ok(Self {
            op,
            now: now(raw.now_us.as_ref(), clock)?,
            transactions: transactions
                .map(|(i, Object(transaction))| Asked::parse(i, op, transaction))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Returns the receipts of the transactions that have one.
    pub(crate) fn receipts(&self, limiter: &Limiter) -> Result<Vec<Option<Receipt>>, Refusal> {
        let read = |asked: &Asked| {
            let text = asked.receipt.as_deref()?;
            Some(receipts::read(limiter, &asked.limit, &asked.id, text))
        };
        let receipts = self
            .transactions
            .iter()
            .map(|asked| read(asked).transpose());
        Ok(receipts.collect::<Result<_, _>>()?)
    }

    /// The transactions, with the receipts that belong to them.
    pub(crate) fn transactions<'a>(
        &'a self,
        receipts: &'a [Option<Receipt>],
    ) -> Vec<Transaction<'a>> {
        let asked = self.transactions.iter().zip(receipts);
        asked
            .map(|(asked, receipt)| match receipt {
                Some(receipt) => asked.transaction().of_receipt(receipt),
                None => asked.transaction(),
            })
            .collect()
    }
}

/// One transaction, owned.
pub(crate) struct Asked {
    pub(crate) limit: String,
    pub(crate) id: String,
    cost: u32,
    min_cost: Option<u32>,
    mode: Mode,
    no_wait: bool,
    receipt: Option<String>,
}

impl Asked {
    fn parse(i: usize, op: Op, raw: RawTransaction) -> Result<Self, Refusal> {
        let refuse = |code, message| {
            let message = format!("transactions[{i}].{message}");
            Refusal::bad_request(code, message)
        };
        let Value::String(id) = raw.id else {
            return Err(refuse(
                "invalid_id",
                "id is not a string: write it in quotes",
            ));
        };
        let receipt = receipt(op, raw.receipt, raw.cost.is_some())
            .map_err(|(code, message)| refuse(code, message))?;
        let least = "min_cost is not a whole number from 1 to 4294967295";
        let min_cost = match raw.min_cost.as_ref().map(cost) {
            Some(None | Some(0)) => return Err(refuse("invalid_cost", least)),
            min_cost => min_cost.flatten(),
        };
        let whole = "cost is not a whole number from 0 to 4294967295";
        let cost = raw.cost.as_ref().map_or(Some(1), cost);
        let known = "mode is not one of check_and_spend, check_only, spend_only, debit";
        let mode = raw.mode.as_ref().map_or(Some(Mode::CheckAndSpend), mode);
        Ok(Self {
            limit: raw.limit,
            id,
            cost: cost.ok_or_else(|| refuse("invalid_cost", whole))?,
            min_cost,
            mode: mode.ok_or_else(|| refuse("invalid_mode", known))?,
            no_wait: raw.no_wait,
            receipt,
        })
    }

    /// Returns the limit that holds for the client.
    pub(crate) fn in_force<'a>(&self, limits: &'a Limits) -> Option<&'a Limit> {
        limits.get(&self.limit)?.limit_of(&self.id).ok().flatten()
    }

    fn transaction(&self) -> Transaction<'_> {
        let mut transaction = Transaction::new(&self.limit, &self.id)
            .cost(self.cost)
            .mode(self.mode);
        if self.no_wait {
            transaction = transaction.no_wait();
        }
        match self.min_cost {
            Some(min_cost) => transaction.min_cost(min_cost),
            None => transaction,
        }
    }
}

/// The receipt of a refund or a renewal, which also determines its cost.
fn receipt(
    op: Op,
    raw: Option<Value>,
    has_cost: bool,
) -> Result<Option<String>, (&'static str, &'static str)> {
    match raw {
        None if op == Op::Renew && has_cost => {
            Err(("invalid_cost", "cost is that of the receipt: leave it out"))
        }
        None => Ok(None),
        Some(_) if !matches!(op, Op::Refund | Op::Renew) => Err((
            "invalid_receipt",
            "receipt is for refunds and renewals: leave it out",
        )),
        Some(_) if has_cost => Err(("invalid_cost", "cost is that of the receipt: leave it out")),
        Some(Value::String(receipt)) => Ok(Some(receipt)),
        Some(_) => Err((
            "invalid_receipt",
            "receipt is not a string: write it in quotes",
        )),
    }
}

fn op(op: &str) -> Result<Op, Refusal> {
    match op {
        "check" => Ok(Op::Check),
        "spend" => Ok(Op::Spend),
        "refund" => Ok(Op::Refund),
        "renew" => Ok(Op::Renew),
        "reset" => Ok(Op::Reset),
        _ => Err(Refusal::bad_request(
            "invalid_json",
            "op is not one of check, spend, refund, renew, reset",
        )),
    }
}

fn now(now_us: Option<&Value>, clock: ClockSource) -> Result<Option<Timestamp>, Refusal> {
    match (clock, now_us) {
        (ClockSource::Backend, None) => Ok(None),
        (ClockSource::Backend, Some(_)) => Err(Refusal::bad_request(
            "clock_not_manual",
            "now_us is only for a service that was started with --manual-clock: leave it out",
        )),
        (ClockSource::Requests, None) => Err(Refusal::bad_request(
            "missing_now",
            "now_us is missing: with --manual-clock, send microseconds since the Unix epoch",
        )),
        (ClockSource::Requests, Some(now_us)) => {
            let now = now_us.as_u64().map(Timestamp::from_micros);
            let now = now.filter(|now| *now < Timestamp::END);
            now.map(Some).ok_or_else(|| {
                Refusal::bad_request(
                    "invalid_now",
                    "now_us is not a whole number of microseconds from 0 to 2^52 - 1",
                )
            })
        }
    }
}

fn cost(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|cost| cost.try_into().ok())
}

fn mode(value: &Value) -> Option<Mode> {
    match value.as_str()? {
        "check_and_spend" => Some(Mode::CheckAndSpend),
        "check_only" => Some(Mode::CheckOnly),
        "spend_only" => Some(Mode::SpendOnly),
        "debit" => Some(Mode::Debit),
        _ => None,
    }
}

/// The form of the body. Fields with their own error codes accept any value here.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRequest {
    op: String,
    #[serde(default, deserialize_with = "given")]
    now_us: Option<Value>,
    transactions: Vec<Object<RawTransaction>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTransaction {
    limit: String,
    id: Value,
    #[serde(default, deserialize_with = "given")]
    cost: Option<Value>,
    #[serde(default, deserialize_with = "given")]
    mode: Option<Value>,
    #[serde(default, deserialize_with = "given")]
    min_cost: Option<Value>,
    #[serde(default)]
    no_wait: bool,
    #[serde(default, deserialize_with = "given")]
    receipt: Option<Value>,
}

/// Reads `null` as a given value. Only a missing field has a default.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A struct that must be an object. Derived code would also accept an array of its fields.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<T, M::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}
