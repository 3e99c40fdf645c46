//! Starts the browser, with the commands of the configuration, of the variable `BROWSER` or of the operating system.

use std::env;
use std::process::Stdio;

use tokio::process::Command;
use url::Url;

use crate::store::KEY_VARIABLE;

/// Separates the commands in `BROWSER`.
const SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };

/// The command of the operating system.
const DEFAULT_COMMAND: &str = if cfg!(windows) {
    "rundll32 url.dll,FileProtocolHandler %s"
} else if cfg!(target_os = "macos") {
    "open %s"
} else {
    "xdg-open %s"
};

/// Opens a URL in a browser. Returns when the command has ended, which can be when the browser is closed.
///
/// The error has the reason of the last command that was tried.
pub(super) async fn open(configured: Option<&str>, url: &Url) -> Result<(), String> {
    let variable = env::var("BROWSER").ok();
    let commands = configured.or(variable.as_deref()).filter(|it| !it.trim().is_empty());
    let mut reason = "no command is configured".to_owned();
    for command in commands.map_or_else(|| vec![DEFAULT_COMMAND], |it| it.split(SEPARATOR).collect()) {
        let Some((program, arguments)) = arguments(command, url) else {
            continue;
        };
        match run(&program, &arguments).await {
            Ok(()) => return Ok(()),
            Err(error) => reason = error,
        }
    }
    Err(reason)
}

/// Splits a command at spaces into the program and its arguments, and inserts the URL for `%s`, or at the end. There is no shell,
/// so that nothing in the URL is interpreted.
fn arguments(command: &str, url: &Url) -> Option<(String, Vec<String>)> {
    // A command may end in `&`, which is for shells.
    let mut words = command.split_whitespace().filter(|word| *word != "&");
    let program = words.next()?.to_owned();
    let mut arguments: Vec<_> = words.map(|word| word.replace("%s", url.as_str())).collect();
    if !command.contains("%s") {
        arguments.push(url.to_string());
    }
    Some((program, arguments))
}

async fn run(program: &str, arguments: &[String]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The browser must not get the key of the token store.
    command.env_remove(KEY_VARIABLE);
    // Ctrl-C in the terminal of this program must not close the browser.
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    match child.wait().await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_one_argument_and_no_shell_reads_it() {
        let url = Url::parse("https://a.example/?a=$(id)&b=`id`;c|d%20e").unwrap();
        let argument = url.to_string();
        let (program, arguments_of) = arguments("firefox", &url).unwrap();
        assert_eq!((program.as_str(), arguments_of), ("firefox", vec![argument.clone()]));
        let (program, arguments_of) = arguments(" firefox  -new-tab --url=%s & ", &url).unwrap();
        assert_eq!(
            (program.as_str(), arguments_of),
            ("firefox", vec!["-new-tab".to_owned(), format!("--url={argument}")])
        );
        assert_eq!(arguments(" ", &url), None);
        assert_eq!(arguments(DEFAULT_COMMAND, &url).unwrap().1.last(), Some(&argument));
    }
}
