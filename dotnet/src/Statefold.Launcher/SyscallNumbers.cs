namespace Statefold.Launcher;

/// <summary>Numbers of the system calls that the jail names one by one, from the kernel's unistd.h; fields, because each property would be compiled at every start.</summary>
internal sealed class SyscallNumbers
{
    /// <summary>The same on every processor.</summary>
    public const int Clone3 = 435;
    public const int CloseRange = 436;
    public const int OpenAt2 = 437;
    public const int LandlockCreateRuleset = 444;
    public const int LandlockAddRule = 445;
    public const int LandlockRestrictSelf = 446;

    private SyscallNumbers(Cpu cpu)
    {
        var x64 = cpu == Cpu.X64;
        Audit = x64 ? 0xC000003E : 0xC00000B7;
        Read = x64 ? 0 : 63;
        Write = x64 ? 1 : 64;
        Close = x64 ? 3 : 57;
        Mmap = x64 ? 9 : 222;
        RtSigaction = x64 ? 13 : 134;
        RtSigprocmask = x64 ? 14 : 135;
        Ioctl = x64 ? 16 : 29;
        Socket = x64 ? 41 : 198;
        GetPid = x64 ? 39 : 172;
        Clone = x64 ? 56 : 220;
        Kill = x64 ? 62 : 129;
        Fcntl = x64 ? 72 : 25;
        Chdir = x64 ? 80 : 49;
        Umask = x64 ? 95 : 166;
        SetPgid = x64 ? 109 : 154;
        SetGroups = x64 ? 116 : 159;
        SetResUid = x64 ? 117 : 147;
        SetResGid = x64 ? 119 : 149;
        CapSet = x64 ? 126 : 91;
        RtSigqueueinfo = x64 ? 129 : 138;
        Prctl = x64 ? 157 : 167;
        SchedSetScheduler = x64 ? 144 : 119;
        SchedSetAffinity = x64 ? 203 : 122;
        TgKill = x64 ? 234 : 131;
        OpenAt = x64 ? 257 : 56;
        PPoll = x64 ? 271 : 73;
        RtTgsigqueueinfo = x64 ? 297 : 240;
        Prlimit64 = x64 ? 302 : 261;
        Seccomp = x64 ? 317 : 277;
        ExecveAt = x64 ? 322 : 281;
    }

    /// <summary>AUDIT_ARCH_… as the filter sees it.</summary>
    public readonly uint Audit;
    public readonly int Read;
    public readonly int Write;
    public readonly int Close;
    public readonly int Mmap;
    public readonly int RtSigaction;
    public readonly int RtSigprocmask;
    public readonly int Ioctl;
    public readonly int Socket;
    public readonly int GetPid;
    public readonly int Clone;
    public readonly int Kill;
    public readonly int Fcntl;
    public readonly int Chdir;
    public readonly int Umask;
    public readonly int SetPgid;
    public readonly int SetGroups;
    public readonly int SetResUid;
    public readonly int SetResGid;
    public readonly int CapSet;
    public readonly int RtSigqueueinfo;
    public readonly int Prctl;
    public readonly int SchedSetScheduler;
    public readonly int SchedSetAffinity;
    public readonly int TgKill;
    public readonly int OpenAt;
    public readonly int PPoll;
    public readonly int RtTgsigqueueinfo;
    public readonly int Prlimit64;
    public readonly int Seccomp;
    public readonly int ExecveAt;

    public static SyscallNumbers Of(Cpu cpu) => new(cpu);

    /// <summary>Calls that need no look at their arguments, ascending: what the runtime and managed code need, and nothing that names another process, a socket or a change to a file.</summary>
    public static ReadOnlySpan<ushort> Allowed(Cpu cpu) => cpu == Cpu.X64 ? AllowedX64 : AllowedArm64;

    /// <summary>
    /// What a database needs besides, which changes files of its own folder. None that landlock doesn't judge names a file: no chmod, no
    /// utimes. Its timers signal itself.
    /// </summary>
    public static ReadOnlySpan<ushort> OfFiles(Cpu cpu) => cpu == Cpu.X64 ? OfFilesX64 : OfFilesArm64;

    private static ReadOnlySpan<ushort> OfFilesX64 =>
    [
        73, 74, 75, 76, 77, 82, 83, 84, 87, // flock fsync fdatasync truncate ftruncate rename mkdir rmdir unlink
        222, 223, 224, 225, 226, // timer_create timer_settime timer_gettime timer_getoverrun timer_delete
        258, 263, 264, 283, 285, 286, 287, 316, // mkdirat unlinkat renameat timerfd_create fallocate timerfd_settime timerfd_gettime renameat2
    ];

    private static ReadOnlySpan<ushort> OfFilesArm64 =>
    [
        32, 34, 35, 38, 45, 46, 47, 82, 83, 85, 86, 87, // flock mkdirat unlinkat renameat truncate ftruncate fallocate fsync fdatasync timerfd_create timerfd_settime timerfd_gettime
        107, 108, 109, 110, 111, 276, // timer_create timer_gettime timer_getoverrun timer_settime timer_delete renameat2
    ];

    private static ReadOnlySpan<ushort> AllowedX64 =>
    [
        0, 1, 2, 3, 4, 5, 6, 7, 8, // read write open close stat fstat lstat poll lseek
        10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, // mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore madvise
        32, 33, 34, 35, 39, // dup dup2 pause nanosleep getpid
        60, 61, 63, 79, 89, // exit wait4 uname getcwd readlink
        96, 97, 98, 99, 100, 102, 104, 107, 108, 110, 111, // gettimeofday getrlimit getrusage sysinfo times getuid getgid geteuid getegid getppid getpgrp
        121, 124, 128, 130, 131, 137, 138, // getpgid getsid rt_sigtimedwait rt_sigsuspend sigaltstack statfs fstatfs
        143, 145, 146, 147, 158, // sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min arch_prctl
        186, 201, 202, 204, 217, 218, 219, 221, // gettid time futex sched_getaffinity getdents64 set_tid_address restart_syscall fadvise64
        228, 229, 230, 231, 232, 233, 237, 239, 247, // clock_gettime clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl mbind get_mempolicy waitid
        257, 262, 267, 269, 270, 271, 273, // openat newfstatat readlinkat faccessat pselect6 ppoll set_robust_list
        281, 290, 291, 292, 293, 295, 296, 309, 318, 324, 327, 328, // epoll_pwait eventfd2 epoll_create1 dup3 pipe2 preadv pwritev getcpu getrandom membarrier preadv2 pwritev2
        332, 334, 436, 439, // statx rseq close_range faccessat2
    ];

    private static ReadOnlySpan<ushort> AllowedArm64 =>
    [
        17, 19, 20, 21, 22, 23, 24, // getcwd eventfd2 epoll_create1 epoll_ctl epoll_pwait dup dup3
        43, 44, 48, 56, 57, 59, // statfs fstatfs faccessat openat close pipe2
        61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 72, 73, 78, 79, 80, // getdents64 lseek read write readv writev pread64 pwrite64 preadv pwritev pselect6 ppoll readlinkat newfstatat fstat
        93, 94, 95, 96, 98, 99, 101, // exit exit_group waitid set_tid_address futex set_robust_list nanosleep
        113, 114, 115, 120, 121, 123, 124, 125, 126, 128, // clock_gettime clock_getres clock_nanosleep sched_getscheduler sched_getparam sched_getaffinity sched_yield sched_get_priority_max sched_get_priority_min restart_syscall
        132, 133, 134, 135, 137, 139, // sigaltstack rt_sigsuspend rt_sigaction rt_sigprocmask rt_sigtimedwait rt_sigreturn
        153, 155, 156, 160, 163, 165, 168, 169, // times getpgid getsid uname getrlimit getrusage getcpu gettimeofday
        172, 173, 174, 175, 176, 177, 178, 179, // getpid getppid getuid geteuid getgid getegid gettid sysinfo
        214, 215, 216, 223, 226, 227, 232, 233, 235, 236, // brk munmap mremap fadvise64 mprotect msync mincore madvise mbind get_mempolicy
        260, 278, 283, 286, 287, 291, 293, 436, 439, // wait4 getrandom membarrier preadv2 pwritev2 statx rseq close_range faccessat2
    ];
}
