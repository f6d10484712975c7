//! Known paths: what every program needs to run, and where secrets are kept.

/// Needed by every program.
pub(super) const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/snap",
    "/proc",
    "/sys",
    // `/etc/resolv.conf` is often a link into one of these two.
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/nscd",
    // NixOS links the programs of the system from here.
    "/run/current-system",
    "/var/lib/ca-certificates",
    "/var/cache/fontconfig",
    "/dev/random",
    "/dev/urandom",
];

/// Written by ordinary programs.
pub(super) const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/pts", "/dev/ptmx"];

/// Installations of languages and tools below the home directory.
pub(super) const TOOLS: &[&str] = &[
    ".nvm",
    ".volta",
    ".fnm",
    ".n",
    ".asdf",
    ".pyenv",
    ".rbenv",
    ".bun",
    ".deno",
    ".sdkman",
    ".dotnet",
    ".rustup",
    ".cargo/bin",
    "go/bin",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/mise",
    ".local/share/fnm",
    ".local/share/pnpm",
    ".local/share/uv",
    ".local/share/pipx",
    ".config/uv",
    ".config/pip",
    ".config/fontconfig",
    // git fails as a whole when these exist and cannot be read. Passwords are kept beside them, not in them.
    ".gitconfig",
    ".config/git",
];

/// What package managers fill below the home directory.
pub(super) const CACHES: &[&str] = &[
    ".npm",
    ".cache",
    ".yarn",
    ".pnpm-store",
    ".bun/install/cache",
    ".local/share/uv",
    ".local/share/pnpm",
    ".m2",
    ".gradle",
    ".nuget",
    "go/pkg",
    ".cargo/registry",
    ".serena",
];

/// Secrets known by their place below the home directory.
pub(super) const HOME_SECRETS: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".password-store",
    ".vault-token",
    ".terraform.d",
    // People type passwords into shells.
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".mozilla",
    ".thunderbird",
    // Coding agents keep their tokens and transcripts here.
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/op",
    ".config/sops",
    ".config/tsugi",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/Code",
    ".config/Cursor",
    ".config/Slack",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".local/share/tsugi",
    ".cache/mozilla",
    ".cache/google-chrome",
    ".cache/chromium",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".cache/huggingface/token",
    "Library",
];

/// Secrets of the machine; ordinary users cannot read them anyway.
pub(super) const SYSTEM_SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/docker",
    "/etc/kubernetes",
    "/etc/wireguard",
    "/root",
    // The homes of other users. `is_secret` makes an exception for the child's own.
    "/home",
];

/// How names of scripts end; a script needs the rest of its project.
pub(super) const SCRIPTS: &[&str] = &["js", "mjs", "cjs", "ts", "mts", "py", "pyz", "rb", "php", "pl", "sh", "jar"];

/// Files that mark the folder of a script's project.
pub(super) const PROJECT_MARKS: &[&str] = &["package.json", "pyproject.toml", "setup.py", "composer.json", "Gemfile"];
