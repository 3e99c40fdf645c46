//! Values held against schemas: by a table of every keyword and dialect, and against another implementation.

mod budget;
mod keyword;
mod oracle;
mod refusal;
