//! What Windows knows of files and of its users: owners, access lists, numbers of files. The functions
//! are safe to call.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::path::{Component, Path, Prefix};
use std::ptr::null_mut;
use windows_sys::Win32::Foundation::{
    ERROR_SUCCESS, GENERIC_READ, GENERIC_WRITE, HANDLE, INVALID_HANDLE_VALUE, LocalFree,
};
use windows_sys::Win32::Security::Authorization::{
    ConvertSecurityDescriptorToStringSecurityDescriptorW, ConvertSidToStringSidW,
    ConvertStringSecurityDescriptorToSecurityDescriptorW, GetSecurityInfo, SDDL_REVISION_1,
    SE_FILE_OBJECT, SE_KERNEL_OBJECT, SE_OBJECT_TYPE,
};
use windows_sys::Win32::Security::{
    CheckTokenMembership, CreateWellKnownSid, DACL_SECURITY_INFORMATION, GetTokenInformation,
    OWNER_SECURITY_INFORMATION, PSID, SECURITY_ATTRIBUTES, SECURITY_MAX_SID_SIZE, TOKEN_QUERY,
    TOKEN_USER, TokenUser, WinBuiltinAdministratorsSid,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, CREATE_NEW, CreateDirectoryW, CreateFileW, FILE_ATTRIBUTE_NORMAL,
    FILE_FLAG_BACKUP_SEMANTICS, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE,
    GetFileInformationByHandle, READ_CONTROL,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// Which parts of a descriptor are asked for.
const PARTS: u32 = OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION;

/// What a file is opened for to read its descriptor.
pub(crate) const READ_DESCRIPTOR: u32 = READ_CONTROL;
/// The flag that lets directories be opened.
pub(crate) const DIRECTORIES_TOO: u32 = FILE_FLAG_BACKUP_SEMANTICS;

/// The most bytes of what a token says of its user: a SID has at most 68.
const USER_BYTES: usize = 256;

/// Memory that Windows has allocated for its caller.
struct Local(*mut c_void);

impl Drop for Local {
    fn drop(&mut self) {
        // SAFETY: the functions that made it say that it is freed by this function, and nothing else
        // has the pointer.
        unsafe { LocalFree(self.0) };
    }
}

/// A security descriptor.
pub(crate) struct Descriptor(Local);

impl Descriptor {
    /// The descriptor that a text in the language of security descriptors (SDDL) describes.
    pub(crate) fn from_text(text: &str) -> io::Result<Self> {
        let (text, mut made) = (wide(text.encode_utf16())?, null_mut());
        // SAFETY: `text` ends with a 0, and `made` is valid for a pointer; the size is not asked for.
        succeeded(unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.as_ptr(),
                SDDL_REVISION_1,
                &raw mut made,
                null_mut(),
            )
        })?;
        Ok(Self(Local(made)))
    }

    /// The owner and the access list of a file or directory that was opened with [`READ_DESCRIPTOR`].
    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        Self::of(file.as_raw_handle(), SE_FILE_OBJECT)
    }

    /// The owner and the access list of a pipe.
    pub(crate) fn of_pipe(pipe: BorrowedHandle<'_>) -> io::Result<Self> {
        Self::of(pipe.as_raw_handle(), SE_KERNEL_OBJECT)
    }

    fn of(handle: HANDLE, kind: SE_OBJECT_TYPE) -> io::Result<Self> {
        let mut made = null_mut();
        // SAFETY: callers have the handle open, `made` is valid for a pointer, and nothing else is asked
        // for.
        let code = unsafe {
            GetSecurityInfo(
                handle,
                kind,
                PARTS,
                null_mut(),
                null_mut(),
                null_mut(),
                null_mut(),
                &raw mut made,
            )
        };
        if code != ERROR_SUCCESS {
            return Err(io::Error::from_raw_os_error(code.cast_signed()));
        }
        Ok(Self(Local(made)))
    }

    /// Owner and access list as a text. Each user has only one name in such texts.
    pub(crate) fn text(&self) -> io::Result<String> {
        let mut made = null_mut();
        // SAFETY: the descriptor is one that Windows has made, and `made` is valid for a pointer; the
        // length is not asked for.
        succeeded(unsafe {
            ConvertSecurityDescriptorToStringSecurityDescriptorW(
                self.0.0,
                SDDL_REVISION_1,
                PARTS,
                &raw mut made,
                null_mut(),
            )
        })?;
        // SAFETY: the call has succeeded, so `made` is a text that ends with a 0.
        Ok(unsafe { taken(made) })
    }

    fn attributes(&self) -> SECURITY_ATTRIBUTES {
        SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
            lpSecurityDescriptor: self.0.0,
            bInheritHandle: 0,
        }
    }
}

/// Creates a file with this descriptor, for reading and writing. Its name must not exist.
pub(crate) fn create_file(path: &Path, descriptor: &Descriptor) -> io::Result<File> {
    let path = wide_path(path)?;
    let attributes = descriptor.attributes();
    // SAFETY: `path` ends with a 0, and the attributes and their descriptor outlive the call.
    let handle = unsafe {
        CreateFileW(
            path.as_ptr(),
            GENERIC_READ | GENERIC_WRITE,
            FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
            &raw const attributes,
            CREATE_NEW,
            FILE_ATTRIBUTE_NORMAL,
            null_mut(),
        )
    };
    if handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, and nothing else has the handle.
    Ok(unsafe { File::from_raw_handle(handle) })
}

/// Creates a directory with this descriptor. Its name must not exist.
pub(crate) fn create_directory(path: &Path, descriptor: &Descriptor) -> io::Result<()> {
    let path = wide_path(path)?;
    let attributes = descriptor.attributes();
    // SAFETY: `path` ends with a 0, and the attributes and their descriptor outlive the call.
    succeeded(unsafe { CreateDirectoryW(path.as_ptr(), &raw const attributes) })
}

/// The user of this process, as a SID: `S-1-5-21-…`.
pub(crate) fn user() -> io::Result<String> {
    let mut token: HANDLE = null_mut();
    // SAFETY: the handle of this process is always valid, and `token` is valid for a handle.
    succeeded(unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) })?;
    // SAFETY: the call has succeeded, and nothing else has the handle.
    let token = unsafe { OwnedHandle::from_raw_handle(token) };
    /// Bytes with the alignment of what is written there.
    #[repr(C, align(16))]
    struct Room([u8; USER_BYTES]);
    const { assert!(align_of::<TOKEN_USER>() <= 16) };
    let (mut room, mut length) = (Room([0; USER_BYTES]), 0);
    // SAFETY: `room` is valid for the length that is given, and `length` for a number.
    succeeded(unsafe {
        GetTokenInformation(
            token.as_raw_handle(),
            TokenUser,
            (&raw mut room).cast(),
            USER_BYTES as u32,
            &raw mut length,
        )
    })?;
    // SAFETY: the call has succeeded, so `room` begins with this structure, and is aligned for it.
    let user = unsafe { (&raw const room).cast::<TOKEN_USER>().read() };
    let mut made = null_mut();
    // SAFETY: the SID is one that Windows has written into `room`, and `made` is valid for a pointer.
    succeeded(unsafe { ConvertSidToStringSidW(user.User.Sid, &raw mut made) })?;
    // SAFETY: the call has succeeded, so `made` is a text that ends with a 0.
    Ok(unsafe { taken(made) })
}

/// The number of a file's volume, and its number there.
pub(crate) fn identity(file: &File) -> io::Result<(u64, u64)> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is that of an open file, and `found` is valid for what is written.
    succeeded(unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut found) })?;
    let index = u64::from(found.nFileIndexHigh) << 32 | u64::from(found.nFileIndexLow);
    Ok((found.dwVolumeSerialNumber.into(), index))
}

/// Whether this process has the rights of an administrator. The system has them.
pub(crate) fn is_administrator() -> io::Result<bool> {
    let mut group = [0_u32; SECURITY_MAX_SID_SIZE as usize / size_of::<u32>()];
    let (mut length, mut is_member) = (SECURITY_MAX_SID_SIZE, 0);
    let group: PSID = group.as_mut_ptr().cast();
    // SAFETY: `group` is valid for the length that is given and aligned for a SID, and a domain is not
    // needed for this one.
    succeeded(unsafe {
        CreateWellKnownSid(WinBuiltinAdministratorsSid, null_mut(), group, &raw mut length)
    })?;
    // SAFETY: the call has succeeded, so `group` has a SID; without a handle this process is meant.
    succeeded(unsafe { CheckTokenMembership(null_mut(), group, &raw mut is_member) })?;
    Ok(is_member != 0)
}

/// A path that ends with a 0, in the form in which it may be longer than 260 units: absolute, and
/// after `\\?\`.
fn wide_path(path: &Path) -> io::Result<Vec<u16>> {
    let path = std::path::absolute(path)?;
    let (before, left_out) = match path.components().next() {
        Some(Component::Prefix(prefix)) => match prefix.kind() {
            Prefix::Disk(_) => (r"\\?\", 0),
            // Two backslashes begin the name of another machine.
            Prefix::UNC(..) => (r"\\?\UNC\", 2),
            _ => ("", 0),
        },
        _ => ("", 0),
    };
    wide(before.encode_utf16().chain(path.as_os_str().encode_wide().skip(left_out)))
}

/// A text that ends with a 0.
fn wide(text: impl Iterator<Item = u16>) -> io::Result<Vec<u16>> {
    let mut text: Vec<u16> = text.collect();
    if text.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a name with a 0 in it"));
    }
    text.push(0);
    Ok(text)
}

/// The text at `made`, whose memory is freed.
///
/// # Safety
///
/// Windows has made the text for its caller, and it ends with a 0.
unsafe fn taken(made: *mut u16) -> String {
    let _owner = Local(made.cast());
    let mut length = 0;
    // SAFETY: all units up to the 0 belong to the text.
    while unsafe { *made.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: as above.
    String::from_utf16_lossy(unsafe { std::slice::from_raw_parts(made, length) })
}

fn succeeded(done: i32) -> io::Result<()> {
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wine takes long paths in every form.
    #[test]
    fn paths_have_the_form_in_which_they_may_be_long() {
        for (path, expected) in [
            (r"C:\a/b\..\c", r"\\?\C:\a\c"),
            (r"\\server\share\a\.\b", r"\\?\UNC\server\share\a\b"),
            (r"\\?\C:\a", r"\\?\C:\a"),
            (r"\\.\pipe\a", r"\\.\pipe\a"),
        ] {
            let units = wide_path(Path::new(path)).unwrap();
            assert_eq!(String::from_utf16(&units).unwrap(), format!("{expected}\0"));
        }
        let relative = wide_path(Path::new("a")).unwrap();
        assert!(String::from_utf16(&relative).unwrap().starts_with(r"\\?\"));
        assert!(wide_path(Path::new("a\0b")).is_err());
    }
}
