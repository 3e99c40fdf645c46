//! A blocking loop over lines: reads all available requests, and writes their responses at once.

use std::io::{self, Read as _, Write as _};

use crate::answer::{Answered, answer};

pub(crate) fn serve() -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let (mut piece, mut lines, mut answers) = (vec![0; 64 * 1024], Vec::new(), Vec::new());
    loop {
        let count = input.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        let searched = lines.len();
        lines.extend_from_slice(&piece[..count]);
        let mut begin = 0;
        for end in memchr::memchr_iter(b'\n', &lines[searched..]) {
            let end = searched + end;
            if matches!(answer(&lines[begin..end], None, &mut answers), Answered::Response | Answered::Initialized) {
                answers.push(b'\n');
            }
            begin = end + 1;
        }
        lines.drain(..begin);
        output.write_all(&answers)?;
        output.flush()?;
        answers.clear();
    }
}
