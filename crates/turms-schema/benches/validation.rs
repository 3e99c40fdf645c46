//! Validation compared with the `jsonschema` crate: from JSON text to the verdict, and compilation.
//!
//! Instructions, by callgrind (turms, jsonschema): small 9.1 k, 9.5 k; rows 615 k, 845 k; text 451 k, 802 k; compiling 221 k and 250 k,
//! 154 k and 145 k, 36 k and 46 k.
//!
//! `cargo bench -p turms-schema`. Under callgrind (`valgrind --tool=callgrind`), `-- --exact NAME --sample-count 1 --sample-size N`
//! with two values of N gives instructions: their difference, divided.

use divan::{Bencher, black_box};
use serde_json::{Value, json};
use turms_proto::{Object, RawJson};
use turms_schema::{Trust, Validator};

fn main() {
    divan::main();
}

/// A schema with a value for it.
#[derive(Debug, Clone, Copy)]
enum Sample {
    /// Small arguments of a tool: 143 bytes, six keywords, one pattern.
    Small,
    /// 100 rows of 9.4 KB.
    Rows,
    /// One text of 100 KiB, with line breaks.
    Text,
}

const SAMPLES: [Sample; 3] = [Sample::Small, Sample::Rows, Sample::Text];

impl Sample {
    fn schema(self) -> Value {
        match self {
            Self::Small => json!({
                "type": "object",
                "properties": {
                    "city": { "type": "string", "minLength": 1, "maxLength": 100 },
                    "code": { "type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,5}$" },
                    "days": { "type": "integer", "minimum": 1, "maximum": 14 },
                    "metric": { "type": "boolean" },
                    "units": { "enum": ["celsius", "fahrenheit", "kelvin"] },
                    "tags": { "type": "array", "items": { "type": "string" } },
                },
                "required": ["city", "days"],
                "additionalProperties": false,
            }),
            Self::Rows => json!({
                "type": "object",
                "properties": { "rows": { "type": "array", "items": {
                    "type": "object",
                    "properties": {
                        "id": { "type": "integer", "minimum": 0 },
                        "name": { "type": "string", "minLength": 1 },
                        "price": { "type": "number", "exclusiveMinimum": 0 },
                        "state": { "enum": ["new", "open", "closed"] },
                        "note": { "type": ["string", "null"] },
                    },
                    "required": ["id", "name", "price", "state"],
                    "additionalProperties": false,
                } } },
                "required": ["rows"],
            }),
            Self::Text => json!({
                "type": "object",
                "properties": { "text": { "type": "string", "maxLength": 200_000 } },
                "required": ["text"],
            }),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Small => r#"{"city":"Reykjavík","code":"IS-10123","days":7,"metric":true,"units":"celsius","tags":["wind","rain","snow on high ground and fog in the va"]}"#.to_owned(),
            Self::Rows => {
                let rows: Vec<String> = (0..100)
                    .map(|id| {
                        format!(
                            r#"{{"id":{id},"name":"item number {id}","price":{id}.75,"state":"open","note":"nothing to see"}}"#
                        )
                    })
                    .collect();
                format!("{{\"rows\":[{}]}}", rows.join(","))
            }
            Self::Text => {
                let line = "The quick brown fox jumps over the lazy dog, again and again, in 2026.\\n";
                format!("{{\"text\":\"{}\"}}", line.repeat((100 << 10) / line.len()))
            }
        }
    }
}

#[divan::bench(args = SAMPLES)]
fn check_turms(bencher: Bencher<'_, '_>, sample: Sample) {
    let (validator, text) = (Validator::of_value(&sample.schema(), Trust::Own).expect("a schema"), sample.text());
    bencher.bench_local(|| {
        let value = RawJson::parse(black_box(&text).clone()).expect("JSON");
        assert!(validator.check(&value).is_ok());
    });
}

#[divan::bench(args = SAMPLES)]
fn check_jsonschema(bencher: Bencher<'_, '_>, sample: Sample) {
    let (validator, text) = (jsonschema::validator_for(&sample.schema()).expect("a schema"), sample.text());
    bencher.bench_local(|| {
        let value: Value = serde_json::from_str(&black_box(&text).clone()).expect("JSON");
        assert!(validator.is_valid(&value));
    });
}

#[divan::bench(args = SAMPLES)]
fn compile_turms(bencher: Bencher<'_, '_>, sample: Sample) {
    let schema = Object::parse(sample.schema().to_string()).expect("JSON");
    bencher.bench_local(|| Validator::new(black_box(&schema), Trust::Own).expect("a schema"));
}

#[divan::bench(args = SAMPLES)]
fn compile_jsonschema(bencher: Bencher<'_, '_>, sample: Sample) {
    let schema = sample.schema().to_string();
    bencher.bench_local(|| {
        let schema: Value = serde_json::from_str(black_box(&schema)).expect("JSON");
        jsonschema::validator_for(&schema).expect("a schema")
    });
}
