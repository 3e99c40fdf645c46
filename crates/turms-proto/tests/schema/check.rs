//! Round trips of one definition, and the report of failures.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::panic::catch_unwind;

use crate::corpus::Revision;
use crate::difference::Comparison;
use crate::generate::{Case, cases};
use crate::json::Json;
use crate::registry::Row;

/// Passes every case of a definition through the codec of a row.
pub(crate) fn check(revision: &Revision, definition: &str, row: &Row, random: usize) -> Outcome {
    let mut outcome = Outcome::new(revision.name(), definition);
    for case in cases(revision, definition, random) {
        if row.excuses(&case.instance) {
            outcome.excused += 1;
            continue;
        }
        let trip = RoundTrip::of(row, &case.instance, |json| case.spell(json));
        let problems = trip.problems(revision, definition, row);
        outcome.note(case.name(), trip, problems);
    }
    outcome
}

/// One round trip. `sent` and `output` include the wrapping.
pub(crate) struct RoundTrip {
    sent: Json,
    input: String,
    output: Result<String, String>,
    wrapping: Vec<&'static str>,
}

impl RoundTrip {
    pub(crate) fn of(row: &Row, instance: &Json, spell: impl Fn(&Json) -> String) -> Self {
        let (sent, wrapping) = row.wrapped(instance);
        let input = spell(&sent);
        let codec = row.codec();
        let output = catch_unwind(|| codec(&input)).unwrap_or_else(|_| Err("the codec panicked, see above".to_owned()));
        Self { sent, input, output, wrapping }
    }

    /// Checks that the output is valid and equals the input, except for the row's exemptions.
    pub(crate) fn problems(&self, revision: &Revision, definition: &str, row: &Row) -> Vec<String> {
        let mut output = match self.decoded() {
            Ok(output) => output,
            Err(problem) => return vec![problem],
        };
        let comparison = Comparison {
            schema: Some((revision, definition)),
            may_add: row.allowed_additions(),
            sheds: row.shedding_places(),
            wrapping: &self.wrapping,
        };
        let mut problems = comparison.differences(&self.sent, &output);
        if let (Json::Object(members), false) = (&mut output, self.wrapping.is_empty()) {
            members.retain(|(name, _)| !self.wrapping.contains(&name.as_str()));
        }
        problems.extend(revision.violations(definition, &output.to_value()));
        problems
    }

    fn decoded(&self) -> Result<Json, String> {
        let output = self.output.as_ref().map_err(|reason| format!("not decoded: {reason}"))?;
        Json::parse(output).map_err(|reason| format!("the output is not JSON: {reason}"))
    }
}

/// Results of a definition.
pub(crate) struct Outcome {
    revision: String,
    pub(crate) definition: String,
    pub(crate) cases: usize,
    pub(crate) excused: usize,
    pub(crate) excuse: &'static str,
    pub(crate) failures: Vec<Failure>,
}

pub(crate) struct Failure {
    case: String,
    input: String,
    output: String,
    pub(crate) problems: Vec<String>,
}

impl Outcome {
    pub(crate) fn new(revision: &str, definition: &str) -> Self {
        let (revision, definition) = (revision.to_owned(), definition.to_owned());
        Self { revision, definition, cases: 0, excused: 0, excuse: "", failures: Vec::new() }
    }

    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.revision, self.definition)
    }

    /// A row that exempts every case would pass without testing anything.
    pub(crate) fn is_failure(&self) -> bool {
        self.cases == 0 || !self.failures.is_empty()
    }

    /// Counts a skipped case.
    pub(crate) fn excuse(&mut self, reason: &'static str) {
        self.excused += 1;
        self.excuse = reason;
    }

    /// Counts a round trip, and stores it if it has problems.
    pub(crate) fn note(&mut self, case: String, trip: RoundTrip, problems: Vec<String>) {
        self.cases += 1;
        if problems.is_empty() {
            return;
        }
        let output = trip.output.unwrap_or_else(|_| "(none)".to_owned());
        self.failures.push(Failure { case, input: trip.input, output, problems });
    }

    /// Counts a case whose output did not come from a round trip.
    pub(crate) fn record(
        &mut self,
        case: &Case,
        output: Result<String, String>,
        examine: impl FnOnce(&Json) -> Vec<String>,
    ) {
        let trip =
            RoundTrip { sent: case.instance.clone(), input: case.spell(&case.instance), output, wrapping: Vec::new() };
        let problems = match trip.decoded() {
            Ok(output) => examine(&output),
            Err(problem) => vec![problem],
        };
        self.note(case.name(), trip, problems);
    }

    /// Returns the kinds of problems with their counts.
    fn tally(&self) -> BTreeMap<String, usize> {
        let mut tally = BTreeMap::new();
        for kind in self.failures.iter().flat_map(Failure::kinds) {
            *tally.entry(kind).or_default() += 1;
        }
        tally
    }

    /// Returns the shortest failures that together show as many kinds of problems as possible.
    fn telling_failures(&self) -> Vec<&Failure> {
        let mut shortest: Vec<_> = self.failures.iter().collect();
        shortest.sort_by_key(|failure| failure.input.len());
        let mut known = BTreeSet::new();
        shortest.retain(|failure| failure.kinds().filter(|kind| known.insert(kind.clone())).count() > 0);
        shortest.truncate(SHOWN);
        shortest
    }
}

impl Failure {
    /// Returns the problems without random details: values, columns and positions in lists.
    fn kinds(&self) -> impl Iterator<Item = String> {
        let ends = ["\" was ", "\": ", " at line "];
        self.problems.iter().map(move |problem| {
            let cut = ends.iter().find_map(|end| problem.split_once(end));
            let steps = cut.map_or(problem.as_str(), |(kind, _)| kind).split('/');
            let is_index = |step: &str| step.parse::<usize>().is_ok();
            let steps: Vec<_> = steps.map(|step| if is_index(step) { "*" } else { step }).collect();
            steps.join("/").replace('"', "")
        })
    }
}

/// Number of failures shown in full for each definition; the others are only counted.
const SHOWN: usize = 4;

impl Display for Outcome {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { cases, failures, .. } = self;
        let title = self.title();
        writeln!(formatter, "\n=== {title}: {} of {cases} cases failed", failures.len())?;
        for failure in self.telling_failures() {
            write!(formatter, "{failure}")?;
        }
        writeln!(formatter, "  -- all {} failures, by place", failures.len())?;
        for (kind, count) in self.tally() {
            writeln!(formatter, "     {count:5} × {kind}")?;
        }
        Ok(())
    }
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "  -- {}", self.case)?;
        writeln!(formatter, "     input:  {}", self.input)?;
        writeln!(formatter, "     output: {}", self.output)?;
        for problem in &self.problems {
            writeln!(formatter, "     {problem}")?;
        }
        Ok(())
    }
}
