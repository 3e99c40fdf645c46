//! Dates and times (RFC 3339).

pub(crate) fn is_date_time(text: &str) -> bool {
    text.split_once(['T', 't']).is_some_and(|(date, time)| is_date(date) && is_time(time))
}

pub(crate) fn is_date(text: &str) -> bool {
    let [a, b, c, d, b'-', e, f, b'-', g, h] = *text.as_bytes() else { return false };
    let (Some(century), Some(year), Some(month), Some(day)) = (pair(a, b), pair(c, d), pair(e, f), pair(g, h)) else {
        return false;
    };
    let year = u32::from(century) * 100 + u32::from(year);
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

pub(crate) fn is_time(text: &str) -> bool {
    let [a, b, b':', c, d, b':', e, f, ref rest @ ..] = *text.as_bytes() else { return false };
    let (Some(hour), Some(minute), Some(second)) = (pair(a, b), pair(c, d), pair(e, f)) else { return false };
    let rest = match rest.split_first() {
        Some((b'.', fraction)) => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return false;
            }
            &fraction[digits..]
        }
        _ => rest,
    };
    // Offset from UTC, in minutes.
    let offset = match *rest {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), a, b, b':', c, d] => match (pair(a, b), pair(c, d)) {
            (Some(hours @ 0..24), Some(minutes @ 0..60)) => {
                let ahead = i32::from(hours) * 60 + i32::from(minutes);
                if sign == b'+' { ahead } else { -ahead }
            }
            _ => return false,
        },
        _ => return false,
    };
    // A leap second is the last second of a day in UTC.
    let in_utc = (i32::from(hour) * 60 + i32::from(minute) - offset).rem_euclid(24 * 60);
    hour < 24 && minute < 60 && (second < 60 || second == 60 && in_utc == 24 * 60 - 1)
}

fn pair(tens: u8, ones: u8) -> Option<u8> {
    (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| (tens - b'0') * 10 + (ones - b'0'))
}

/// Returns `true` for `P1Y2M3DT4H5M6S` or `P1W`, with units from large to small.
pub(crate) fn is_duration(text: &str) -> bool {
    let Some(text) = text.strip_prefix('P') else { return false };
    if let Some(weeks) = text.strip_suffix('W') {
        return is_number(weeks);
    }
    let (date, time) = text.split_once('T').map_or((text, None), |(date, time)| (date, Some(time)));
    let has_units = !date.is_empty() || time.is_some();
    has_units && are_units(date, "YMD") && time.is_none_or(|time| !time.is_empty() && are_units(time, "HMS"))
}

/// Returns `true` for numbers with consecutive units.
fn are_units(mut text: &str, units: &str) -> bool {
    let mut before = None;
    while !text.is_empty() {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let unit = text[digits..].chars().next().and_then(|unit| units.find(unit));
        if digits == 0 || unit.is_none() || before.is_some() && unit != before {
            return false;
        }
        before = unit.map(|unit| unit + 1);
        text = &text[digits + 1..];
    }
    true
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
