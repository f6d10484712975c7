//! Seccomp: system calls that a tool server never needs and an attacker does.
//!
//! A list of what is refused rather than of what is allowed: servers bring their own runtimes, whose next version
//! may use a new call, and files, network and signals are confined by other means already.

use std::{collections::BTreeMap, io};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter, sock_filter,
};

use crate::sandbox::NetworkAccess;

type SeccompRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused with "operation not permitted".
const REFUSED: &[i64] = &[
    // Other processes' memory and files.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // The kernel itself.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_syslog,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_fanotify_init,
    // Its operations do not pass through this filter, sockets among them.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Keys, and files by handle, which pass by the folders above them.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_open_by_handle_at,
    // Clock and name of the machine.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[libc::SYS_iopl, libc::SYS_ioperm];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

const NAMESPACE_FLAGS: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Filters this thread and all it will start, for good; `is_pinned` keeps it on the cores it was given.
pub(super) fn restrict(net: &NetworkAccess, is_pinned: bool) -> io::Result<()> {
    let (not_permitted, no_access, unknown) = (libc::EPERM, libc::EACCES, libc::ENOSYS);
    install(compile(refused(is_pinned)?, not_permitted)?)?;
    // The flags of clone3 stand in memory, where a filter cannot look; callers fall back to clone.
    install(compile(BTreeMap::from([(libc::SYS_clone3, vec![])]), unknown)?)?;
    install(refuse_foreign_numbers())?;
    if *net == NetworkAccess::None {
        install(compile(other_sockets(&[libc::AF_UNIX, libc::AF_NETLINK])?, no_access)?)?;
    }
    Ok(())
}

fn refused(is_pinned: bool) -> io::Result<SeccompRules> {
    let mut rules: SeccompRules = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, vec![])).collect();
    rules.extend(other_sockets(&[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK])?);
    let namespaces =
        NAMESPACE_FLAGS.iter().map(|flag| rule(&[(0, SeccompCmpOp::MaskedEq(*flag as u64), *flag as u64)]));
    rules.insert(libc::SYS_clone, namespaces.collect::<io::Result<_>>()?);
    // Limits of other processes of the same user, ours for example.
    rules.insert(libc::SYS_prlimit64, vec![rule(&[(0, SeccompCmpOp::Ne, 0)])?]);
    if is_pinned {
        rules.insert(libc::SYS_sched_setaffinity, vec![]);
    }
    Ok(rules)
}

/// Sockets of any family but these.
fn other_sockets(families: &[i32]) -> io::Result<SeccompRules> {
    let conditions: Vec<_> = families.iter().map(|family| (0, SeccompCmpOp::Ne, *family as u64)).collect();
    Ok(BTreeMap::from([(libc::SYS_socket, vec![rule(&conditions)?])]))
}

/// A rule that matches when all conditions on arguments do.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> io::Result<SeccompRule> {
    let conditions = conditions.iter().map(|(argument, comparison, value)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, comparison.clone(), *value)
    });
    let conditions = conditions.collect::<Result<_, _>>().map_err(io::Error::other)?;
    SeccompRule::new(conditions).map_err(io::Error::other)
}

fn compile(rules: SeccompRules, errno: i32) -> io::Result<BpfProgram> {
    let machine = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let refuse = SeccompAction::Errno(errno as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, machine).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

/// On x86-64 every call has a second number, of the x32 interface, which the filters above do not know.
fn refuse_foreign_numbers() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    let step = |code, jf, k| sock_filter { code, jt: 0, jf, k };
    let refuse = u32::from(SeccompAction::Errno(libc::EPERM as u32));
    vec![
        step(LOAD_NUMBER, 0, 0),
        step(JUMP_IF_AT_LEAST, 1, X32),
        step(RETURN, 0, refuse),
        step(RETURN, 0, u32::from(SeccompAction::Allow)),
    ]
}

/// Sets no-new-privileges as well, without which the kernel takes no filter from ordinary users.
fn install(program: BpfProgram) -> io::Result<()> {
    apply_filter(&program).map_err(io::Error::other)
}

/// Whether filters work here.
pub(super) fn try_out() -> io::Result<()> {
    restrict(&NetworkAccess::None, true)
}
