//! WebRTC data channels of browsers with Lightseal: see [`interop::webrtc`].
//!
//! It runs in a network namespace of its own, in which browsers reach nobody else.

use clap::Parser;
use interop::webrtc::{Browser, Call, Session, namespace};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::process::ExitCode;

/// Opens a data channel in every way that browsers and Lightseal have in common.
#[derive(Parser)]
struct Arguments {
    /// Only calls of this browser.
    #[arg(long, value_name = "NAME")]
    browser: Option<String>,
    /// Only a few calls of each browser.
    #[arg(long)]
    sample: bool,
    /// Print the results as JSON, one object in a line.
    #[arg(long)]
    json: bool,
    /// Print every datagram of failed calls.
    #[arg(long)]
    trace: bool,
    /// The address of the page and of our end. Without it, the program makes a network namespace.
    #[arg(long, value_name = "ADDRESS")]
    at: Option<IpAddr>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Some(at) = arguments.at else {
        return match again_in_a_namespace() {
            Ok(code) => code,
            Err(reason) => {
                eprintln!("{reason}");
                ExitCode::from(2)
            }
        };
    };
    let is_wanted = |browser: &Browser| {
        arguments.browser.as_ref().is_none_or(|name| browser.name().eq_ignore_ascii_case(name))
    };
    let mut failed = false;
    for browser in Browser::ALL.into_iter().filter(is_wanted) {
        failed |= !calls(browser, at, &arguments);
    }
    ExitCode::from(u8::from(failed))
}

/// Makes the calls of one browser. Returns whether none failed.
fn calls(browser: Browser, at: IpAddr, arguments: &Arguments) -> bool {
    let version = match browser.version() {
        Ok(version) => version,
        Err(reason) => {
            tell(arguments, &json!({ "browser": browser.name(), "impossible": reason }));
            return true;
        }
    };
    let mut session = match Session::open(browser, at, &std::env::temp_dir()) {
        Ok(session) => session,
        Err(reason) => {
            tell(arguments, &json!({ "browser": browser.name(), "failed": reason }));
            return false;
        }
    };
    let mut all_met = true;
    for call in Call::all().into_iter().filter(|call| !arguments.sample || call.is_sampled()) {
        let mut result = call.json();
        result["browser"] = browser.name().into();
        result["browser_version"] = version.clone().into();
        match session.hold(&call, &lightseal_dtls_aws_lc::PROVIDER) {
            Ok(meeting) => result["seconds"] = meeting.took.as_secs_f64().into(),
            Err(failure) => {
                all_met = false;
                result["failed"] = failure.reason.into();
                if arguments.trace {
                    eprintln!("{call}\n{}", failure.trace);
                }
            }
        }
        tell(arguments, &result);
    }
    all_met
}

fn tell(arguments: &Arguments, result: &Value) {
    if arguments.json {
        println!("{result}");
    } else {
        println!("{}", interop::webrtc::line(result));
    }
}

/// Runs this program again where it can reach nobody else.
fn again_in_a_namespace() -> Result<ExitCode, String> {
    namespace::require()?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = namespace::command(&program);
    let status = command.args(std::env::args_os().skip(1)).status();
    let status = status.map_err(|error| error.to_string())?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}
