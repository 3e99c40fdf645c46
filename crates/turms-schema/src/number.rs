//! JSON numbers, compared by value without loss of precision where it matters.

use std::cmp::Ordering;
use std::fmt;

/// The value of a number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    pub(crate) fn read(text: &str) -> Self {
        if text.len() <= 18
            && let Ok(integer) = text.parse::<i64>()
        {
            return Self::Integer(integer.into());
        }
        match text.parse() {
            Ok(integer) => Self::Integer(integer),
            Err(_) => Self::Float(text.parse().unwrap_or(f64::NAN)),
        }
    }

    pub(crate) fn of(number: &serde_json::Number) -> Self {
        let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
        integer.map_or_else(|| Self::Float(number.as_f64().unwrap_or(f64::NAN)), Self::Integer)
    }

    pub(crate) fn is_integer(self) -> bool {
        match self {
            Self::Integer(_) => true,
            Self::Float(float) => float.is_finite() && float.fract() == 0.0,
        }
    }

    /// Returns a key that is equal for equal numbers, and rarely for others.
    #[allow(clippy::cast_possible_truncation, reason = "what is whole and small enough stays what it is")]
    pub(crate) fn key(self) -> i128 {
        const LARGEST: f64 = 1.7e38;
        match self {
            Self::Integer(integer) => integer,
            Self::Float(float) if float.fract() == 0.0 && float.abs() < LARGEST => float as i128,
            Self::Float(float) => float.to_bits().into(),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "a float says no more")]
    pub(crate) fn rounded(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            // Normalises negative zero.
            Self::Float(float) => float + 0.0,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => integer.fmt(f),
            // In JSON format: `1.0` instead of `1`, `1e300` instead of its zeros.
            Self::Float(float) => write!(f, "{float:?}"),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (*self, *other) {
            (Self::Integer(one), Self::Integer(other)) => Some(one.cmp(&other)),
            (Self::Float(one), Self::Float(other)) => one.partial_cmp(&other),
            (Self::Integer(one), Self::Float(other)) => compare(one, other),
            (Self::Float(one), Self::Integer(other)) => compare(other, one).map(Ordering::reverse),
        }
    }
}

/// Compares exactly: the integral part of a float in the range of integers is an integer. Integers of more than 64
/// bits, which a schema cannot represent, are rounded like those of the schema.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "both are meant to be rounded")]
fn compare(integer: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if !(i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&integer) {
        return (integer as f64).partial_cmp(&float);
    }
    let whole = integer.cmp(&(float.trunc() as i128));
    Some(whole.then_with(|| 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal)))
}

/// A decimal number: `digits` × 10^`exponent`, with the fewest digits. `0.1` is a multiple of `0.01`, which it is not
/// as a float.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    digits: u64,
    exponent: i32,
}

impl Decimal {
    /// Parses a number, without its sign; `None` if it has too many digits.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
            None => (text, 0_i32),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let fraction = fraction.trim_end_matches('0');
        let whole = whole.trim_start_matches('-');
        let mut digits: u64 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            digits = digits.checked_mul(10)?.checked_add(u64::from(digit.wrapping_sub(b'0')))?;
        }
        let mut exponent = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
        while digits != 0 && digits.is_multiple_of(10) {
            digits /= 10;
            exponent = exponent.checked_add(1)?;
        }
        Some(if digits == 0 { Self { digits, exponent: 0 } } else { Self { digits, exponent } })
    }

    pub(crate) fn is_multiple_of(self, divisor: Self) -> bool {
        if self.digits == 0 || divisor.digits == 0 {
            return self.digits == 0;
        }
        let shift = i64::from(self.exponent) - i64::from(divisor.exponent);
        if shift < 0 {
            // The digits have no factor of ten left; the divisor may still have factors of two and five.
            return false;
        }
        let modulus = u128::from(divisor.digits);
        let power = power_of_ten(shift.unsigned_abs(), modulus);
        (u128::from(self.digits) % modulus * power).is_multiple_of(modulus)
    }
}

/// Computes 10^`exponent` modulo `modulus`, which has 64 bits.
fn power_of_ten(mut exponent: u64, modulus: u128) -> u128 {
    let (mut power, mut base) = (1 % modulus, 10 % modulus);
    while exponent > 0 {
        if exponent % 2 == 1 {
            power = power * base % modulus;
        }
        base = base * base % modulus;
        exponent /= 2;
    }
    power
}

/// Returns `true` if one number, as written, is a multiple of another.
pub(crate) fn is_multiple(text: &str, divisor: &str) -> bool {
    match (Decimal::read(text), Decimal::read(divisor)) {
        (Some(number), Some(divisor)) => number.is_multiple_of(divisor),
        _ => match (Number::read(text), Number::read(divisor)) {
            (Number::Integer(number), Number::Integer(divisor)) if divisor != 0 => number % divisor == 0,
            (number, divisor) => number.rounded() % divisor.rounded() == 0.0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_value() {
        let order = |one: &str, other: &str| Number::read(one).partial_cmp(&Number::read(other));
        assert_eq!(order("1", "1.0"), Some(Ordering::Equal));
        assert_eq!(order("-0.0", "0"), Some(Ordering::Equal));
        assert_eq!(order("9007199254740993", "9007199254740992.0"), Some(Ordering::Greater));
        assert_eq!(order("18446744073709551615", "18446744073709551614"), Some(Ordering::Greater));
        assert_eq!(order("1", "1e400"), Some(Ordering::Less));
        assert_eq!(order("-1", "-1.5"), Some(Ordering::Greater));
        assert_eq!(order("1.5", "1"), Some(Ordering::Greater));
        assert!(Number::read("1e3").is_integer() && !Number::read("1.5").is_integer());
    }

    #[test]
    fn multiples_are_counted_in_digits() {
        for (number, divisor, is) in [
            ("0.0075", "0.0001", true),
            ("0.00751", "0.0001", false),
            ("4.5", "1.5", true),
            ("35", "1.5", false),
            ("0.3", "0.1", true),
            ("1e308", "0.5", true),
            ("1e308", "0.123456789", false),
            ("0", "7", true),
            ("-9", "3", true),
            ("100", "1e2", true),
            ("50", "1e2", false),
            ("15", "10", false),
            ("5", "0.2", true),
            ("1.1e-2", "1e-3", true),
            ("18446744073709551616", "2", true),
        ] {
            assert_eq!(is_multiple(number, divisor), is, "{number} {divisor}");
        }
    }
}
