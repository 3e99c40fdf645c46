//! The fuzz targets, run over their seeds and mutations of them. Like `cargo fuzz`, but bounded and deterministic.

use turms_testkit::fuzz::{self, seeds, try_input};

/// Number of mutations per target.
const MUTATIONS: usize = 6000;

/// Maximum length of a mutation, in bytes.
const LONGEST: usize = 4096;

#[test]
fn any_bytes_may_be_a_message() {
    run("envelope", fuzz::envelope);
}

#[test]
fn any_messages_may_come_in_a_session() {
    run("session", fuzz::session);
}

#[test]
fn any_template_and_uri_may_meet() {
    run("uri_template", fuzz::uri_template);
}

#[test]
fn any_text_may_be_in_a_header() {
    run("header_value", fuzz::header_value);
}

fn run(name: &str, target: fn(&[u8])) {
    let seeds = seeds(name);
    let mut random = Random(0x5eed);
    for seed in &seeds {
        try_input(target, seed);
    }
    for _ in 0..MUTATIONS {
        try_input(target, &mutation(&seeds, &mut random));
    }
}

/// Returns a seed after one to four changes.
fn mutation(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        change(&mut input, seeds, random);
        input.truncate(LONGEST);
    }
    input
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let (start, end) = random.range(input.len());
    match random.below(7) {
        0 => flip_a_bit(input, random),
        1 => drop(input.drain(start..end)),
        2 => input.truncate(end),
        3 => {
            let other = &seeds[random.below(seeds.len())];
            let (from, to) = random.range(other.len());
            input.splice(start..end, other[from..to].iter().copied());
        }
        4 => {
            let times = 1 + random.below(40);
            let repeated = input[start..end].repeat(times);
            input.splice(end..end, repeated);
        }
        5 => {
            let piece = PIECES[random.below(PIECES.len())];
            input.splice(start..start, piece.iter().copied());
        }
        _ => {
            let (from, to) = random.range(input.len());
            let moved = input[from..to].to_vec();
            input.splice(start..end, moved);
        }
    }
}

fn flip_a_bit(input: &mut [u8], random: &mut Random) {
    if !input.is_empty() {
        input[random.below(input.len())] ^= 1 << random.below(8);
    }
}

/// Tokens that change the meaning of the surrounding text.
const PIECES: [&[u8]; 16] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"null",
    b"\\ud800",
    b"1e999",
    b"%",
    b"\xff",
    b"\xc3\xa9",
    b"*",
];

/// SplitMix64, which is deterministic on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("less than a usize")
    }

    /// Returns a subrange of this length, possibly empty.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let (one, other) = (self.below(length + 1), self.below(length + 1));
        (one.min(other), one.max(other))
    }
}
