use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A JSON number that keeps its form: `50` does not become `50.0`.
///
/// Numbers are compared by value.
#[derive(Debug, Clone)]
pub struct Number(serde_json::Number);

impl Number {
    /// Returns the value as a float, rounded if it is a large integer.
    #[must_use]
    pub fn as_f64(&self) -> f64 {
        self.0.as_f64().unwrap_or(f64::NAN)
    }

    /// Returns the value as an integer; `None` if it has a fraction, an exponent or is out of range.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.0.as_i64()
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.as_f64() == other.as_f64()
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.as_f64().partial_cmp(&other.as_f64())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Integral floats are written without a fraction. Infinities and NaN, which JSON cannot represent, become 0.
impl From<f64> for Number {
    fn from(value: f64) -> Self {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if value.fract() == 0.0 && value.abs() <= EXACT {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
            return Self((value as i64).into());
        }
        Self(serde_json::Number::from_f64(value).unwrap_or_else(|| 0.into()))
    }
}

macro_rules! from_integer {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Number {
            fn from(value: $integer) -> Self {
                Self(value.into())
            }
        }
    )*};
}

from_integer!(i32, i64, u32, u64, usize);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde_json::Number::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_came() {
        for text in ["50", "0.5", "-3", "18446744073709551615"] {
            let number: Number = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&number).unwrap(), text);
        }
        assert_eq!(Number::from(100.0).to_string(), "100");
        assert_eq!(Number::from(f64::NAN), Number::from(0));
        assert!(Number::from(1) < Number::from(1.5));
    }

    /// Requires the feature `float_roundtrip` of `serde_json`, without which the last digit may be off by one.
    #[test]
    fn a_float_is_read_as_the_nearest_and_written_as_it_was_read() {
        for text in ["3999999999999999999999999999999999999999999999999999999999999", "4.35", "1.7976931348623157e308"]
        {
            let number: Number = crate::decode(text).unwrap();
            assert_eq!(number.as_f64(), text.parse::<f64>().unwrap(), "{text}");
            assert_eq!(crate::decode::<Number>(number.to_string().as_str()).unwrap().to_string(), number.to_string());
        }
    }
}
