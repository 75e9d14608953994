//! Dates, as days since 1970.

/// Returns the first day of the month after that of a day.
pub(crate) fn next_month(day: i64) -> i64 {
    let years = 1970 + day.div_euclid(366)..;
    let year = years.take_while(|year| first_of_year(*year) <= day);
    let year = year.last().unwrap_or(1970);
    let mut end = first_of_year(year);
    for length in months(year) {
        end += length;
        if end > day {
            break;
        }
    }
    end
}

/// Reads an instant such as `2026-01-01T00:00:00Z`, in seconds since 1970.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let months = months(year);
    let index = usize::try_from(month - 1).ok()?;
    let is_day = (1..=*months.get(index)?).contains(&day);
    let days = first_of_year(year) + months[..index].iter().sum::<i64>() + day - 1;
    let is_time = hour < 24 && minute < 60 && second < 60;
    (is_day && is_time).then_some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

fn first_of_year(year: i64) -> i64 {
    let leap_days =
        |until: i64| until.div_euclid(4) - until.div_euclid(100) + until.div_euclid(400);
    365 * (year - 1970) + leap_days(year - 1) - leap_days(1969)
}

/// Returns the lengths of a year's months.
fn months(year: i64) -> [i64; 12] {
    let february = first_of_year(year + 1) - first_of_year(year) - 337;
    [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

fn numbers<const N: usize>(text: &str, separator: char) -> Option<[i64; N]> {
    let read = |digits: &str| {
        let is_number = digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| is_number)
    };
    let numbers = text
        .split(separator)
        .map(read)
        .collect::<Option<Vec<_>>>()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use jiff::{Timestamp, ToSpan, civil::date};

    use super::*;

    #[test]
    fn months_and_instants_are_those_of_a_calendar() {
        let mut month = date(1969, 12, 1);
        let mut day = -31;
        while month.year() < 2201 {
            let next = month.checked_add(1.month()).unwrap();
            let text = format!("{next}T23:59:59Z");
            let first = text.parse::<Timestamp>().unwrap().as_second() / 86_400;
            for within in [day, day + 1, first - 1] {
                assert_eq!(next_month(within), first, "after {within}");
            }
            assert_eq!(seconds(&text), Some(first * 86_400 + 86_399), "{text}");
            month = next;
            day = first;
        }
    }

    #[test]
    fn other_texts_are_no_instants() {
        for text in [
            "",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:+1Z",
            "2026-01-01T00:00:00+02:00",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
