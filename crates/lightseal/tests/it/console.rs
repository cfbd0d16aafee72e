//! How proxies end on Windows: Ctrl-C, Ctrl-Break and a closed console.

use crate::program::{KEY, Running, TempDir, application, echo, lightseal, statistics};
use std::os::windows::process::CommandExt;
use std::process::Command;

/// The process flag `CREATE_NO_WINDOW`: a console of the program's own, which nobody sees. So no event
/// reaches the program that runs the tests.
const OWN_CONSOLE: u32 = 0x0800_0000;

/// Says in a process that sends an event to another one which event and which process.
const ORDER: &str = "LIGHTSEAL_CONSOLE_ORDER";

/// The events of a console and their numbers.
const CTRL_C: u32 = 0;
const CTRL_BREAK: u32 = 1;
const CLOSED: u32 = 2;

#[test]
fn ctrl_c_ctrl_break_and_a_closed_console_end_a_proxy_in_good_order() {
    if let Ok(order) = std::env::var(ORDER) {
        return obey(&order);
    }
    if let Err(reason) = skip::wine("Ctrl-Break, and consoles that can be closed") {
        skip::part("events sent by the console itself, Ctrl-C excepted", reason);
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let service = echo().to_string();
    for event in [CTRL_C, CTRL_BREAK, CLOSED] {
        for ends in ["client", "server"] {
            let written = dir.path(&format!("{event}-{ends}.json"));
            let (mut server, address) = start("server", &service, &keys, &written, ends);
            let (mut client, local) = start("client", &address, &keys, &written, ends);
            let application = application();
            application.send_to(b"message", &local).unwrap();
            application.recv_from(&mut [0; 64]).unwrap();
            if ends == "client" {
                send(event, &client);
                assert_eq!(client.wait(), Some(0), "event {event}");
            } else {
                send(event, &server);
                assert_eq!(server.wait(), Some(0), "event {event}");
                client.wait_for("closed by the peer");
            }
            let json = statistics(&written);
            assert_eq!(json["role"], ends, "{json}");
            assert_eq!(json["outward"]["messages"], 1, "{json}");
            assert_eq!(json["inward"]["messages"], 1, "{json}");
        }
    }
}

/// Starts a proxy with a console of its own, and returns the address on which it listens. The proxy that
/// `ends` writes its statistics then.
fn start(side: &str, to: &str, keys: &str, written: &str, ends: &str) -> (Running, String) {
    let args =
        ["proxy", side, "--listen", "127.0.0.1:0", "--connect", to, "--psk-file", keys, "-v"];
    let more = ["--stats-file", written];
    let more = if side == ends { &more[..] } else { &[] };
    let mut command = lightseal(&[&args[..], more].concat());
    let mut proxy = Running::watch_errors(command.creation_flags(OWN_CONSOLE));
    let line = proxy.wait_for("carrying");
    let listen = line.split_whitespace().skip_while(|word| *word != "carrying").nth(1).unwrap();
    (proxy, listen.to_owned())
}

/// Has another process send an event to a program. That process enters the program's console to do so.
fn send(event: u32, to: &Running) {
    let own = std::env::current_exe().unwrap();
    let test = std::thread::current().name().unwrap().to_owned();
    let mut sender = Command::new(own);
    sender.args(["--exact", &test, "--nocapture"]).env(ORDER, format!("{event} {}", to.id()));
    let output = sender.creation_flags(OWN_CONSOLE).output().unwrap();
    assert!(output.status.success(), "event {event}: {output:?}");
}

/// Sends the event that an order names to the process that it names.
fn obey(order: &str) {
    let (event, process) = order.split_once(' ').unwrap();
    let (event, process) = (event.parse().unwrap(), process.parse().unwrap());
    // A console closes when a person closes its window. Wine's console sends nothing but Ctrl-C.
    let through_console = match event {
        CTRL_C => true,
        CTRL_BREAK => skip::wine("Ctrl-Break").is_ok(),
        _ => false,
    };
    let sent = match through_console {
        true => calls::generate(event, process),
        false => calls::deliver(event, process),
    };
    sent.unwrap();
}

/// Calls of Windows. The functions are safe to call.
#[allow(unsafe_code)]
mod calls {
    use std::ffi::c_void;
    use std::io;
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
    use std::ptr::null;
    use windows_sys::Win32::System::Console::{
        AttachConsole, FreeConsole, GenerateConsoleCtrlEvent, SetConsoleCtrlHandler,
    };
    use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};
    use windows_sys::Win32::System::Threading::{
        CreateRemoteThread, OpenProcess, PROCESS_CREATE_THREAD, PROCESS_QUERY_INFORMATION,
        PROCESS_VM_OPERATION, PROCESS_VM_READ, PROCESS_VM_WRITE,
    };

    /// Takes part in the console of a process, and has that console send an event to all in it.
    pub(super) fn generate(event: u32, process: u32) -> io::Result<()> {
        /// This process takes part in the console, so it gets the event as well, and goes on.
        unsafe extern "system" fn ignore(_: u32) -> i32 {
            1
        }
        // SAFETY: these calls take numbers, and a function that stays and may be called at any time.
        unsafe {
            succeeded(FreeConsole())?;
            succeeded(AttachConsole(process))?;
            succeeded(SetConsoleCtrlHandler(Some(ignore), 1))?;
            succeeded(GenerateConsoleCtrlEvent(event, 0))
        }
    }

    /// Does to a process what its console does there when it sends an event: starts a thread at the
    /// function of the system that calls the handlers.
    pub(super) fn deliver(event: u32, process: u32) -> io::Result<()> {
        const RIGHTS: u32 = PROCESS_CREATE_THREAD
            | PROCESS_QUERY_INFORMATION
            | PROCESS_VM_OPERATION
            | PROCESS_VM_READ
            | PROCESS_VM_WRITE;
        // SAFETY: both names end with a 0; the library is part of every process and stays loaded.
        let routine =
            unsafe { GetProcAddress(GetModuleHandleA(c"kernelbase.dll".as_ptr().cast()), NAME) };
        let routine = routine.ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the call takes numbers alone.
        let handle = unsafe { OpenProcess(RIGHTS, 0, process) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has succeeded, and nothing else has the handle.
        let handle = unsafe { OwnedHandle::from_raw_handle(handle) };
        // SAFETY: the function is one of a thread that takes the event's number, and is at the same
        // address in all processes.
        let thread = unsafe {
            let routine = std::mem::transmute::<
                unsafe extern "system" fn() -> isize,
                unsafe extern "system" fn(*mut c_void) -> u32,
            >(routine);
            let event = std::ptr::without_provenance::<c_void>(event as usize);
            CreateRemoteThread(
                handle.as_raw_handle(),
                null(),
                0,
                Some(routine),
                event,
                0,
                std::ptr::null_mut(),
            )
        };
        if thread.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has succeeded, and nothing else has the handle.
        drop(unsafe { OwnedHandle::from_raw_handle(thread) });
        Ok(())
    }

    /// The function of the system that calls the handlers of a process, in a thread of its own.
    const NAME: *const u8 = c"CtrlRoutine".as_ptr().cast();

    fn succeeded(done: i32) -> io::Result<()> {
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
