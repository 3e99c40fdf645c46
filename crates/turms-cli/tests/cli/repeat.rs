//! `call --repeat`.

use serde_json::Value;

use crate::run::turms;

#[test]
fn calls_are_counted_and_timed() {
    let output = turms(["call", "demo", "add", "a=1", "b=2", "--repeat", "20", "--parallel", "4"]).ok();
    assert!(output.starts_with("20 calls, 0 failed, in "), "{output}");
    for part in ["min ", "median ", "p95 ", "max "] {
        assert!(output.contains(part), "{output}");
    }
    let json = turms(["call", "demo", "add", "a=1", "b=2", "--repeat", "3", "--json"]).ok();
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&report["calls"], &report["failed"]), (&3.into(), &0.into()));
    let times = ["min", "median", "p95", "max"].map(|name| report["milliseconds"][name].as_f64().unwrap());
    assert!(times.is_sorted() && times[0] > 0.0, "{times:?}");
}

#[test]
fn parallel_calls_run_at_the_same_time() {
    // One after the other, they need 2.4 s.
    let words = ["call", "demo", "countdown", "steps=2", "pause=300", "--repeat", "4", "--parallel", "4", "--json"];
    let report: Value = serde_json::from_str(&turms(words).ok()).unwrap();
    assert!(report["seconds"].as_f64().unwrap() < 2.4, "{report}");
}

#[test]
fn failures_are_counted_by_their_message() {
    let divide = ["call", "demo", "divide", "a=1", "b=0", "--repeat", "3"];
    let output = turms(divide).run();
    output.fails(6, &["3 of 3 calls failed", "3 × tool \"divide\" failed: cannot divide by zero"]);
    assert!(output.stdout.starts_with("3 calls, 3 failed, in "), "{output:?}");
    let output = turms(divide.into_iter().chain(["--json"])).run();
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&report["failed"], &report["milliseconds"]), (&3.into(), &Value::Null));
    assert_eq!(report["failures"][0]["count"], 3);
}

#[test]
fn options_that_do_not_fit_are_errors() {
    let call = |options: &[&str]| turms(["call", "demo", "add", "a=1", "b=2"].iter().chain(options)).run();
    call(&["--parallel", "2"]).fails(2, &["--repeat"]);
    call(&["--repeat", "0"]).fails(2, &["--repeat"]);
    call(&["--repeat", "2", "--task"]).fails(2, &["--task"]);
}
