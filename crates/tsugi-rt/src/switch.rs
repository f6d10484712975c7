//! Which tricks are replaced by ordinary code: none, all of them, or for measurements those that an environment variable
//! names.

/// A trick of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuntimeTrick {
    CoarseTimer,
    HeaderTimeout,
    WakeFilter,
    SmallBuffer,
    ReadBuffers,
    BodyBuffers,
}

impl RuntimeTrick {
    /// Whether ordinary code does the work of this trick. A constant unless the feature `switch` is on.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        #[cfg(feature = "switch")]
        return switched::is_named(self);
        #[cfg(not(feature = "switch"))]
        return cfg!(feature = "plain");
    }
}

#[cfg(feature = "switch")]
mod switched {
    use std::sync::LazyLock;

    use super::RuntimeTrick;

    const ALL: [(RuntimeTrick, &str); 6] = [
        (RuntimeTrick::CoarseTimer, "coarse_timer"),
        (RuntimeTrick::HeaderTimeout, "header_timeout"),
        (RuntimeTrick::WakeFilter, "wake_filter"),
        (RuntimeTrick::SmallBuffer, "small_buffer"),
        (RuntimeTrick::ReadBuffers, "read_buffers"),
        (RuntimeTrick::BodyBuffers, "body_buffers"),
    ];

    static PLAIN: LazyLock<[bool; ALL.len()]> = LazyLock::new(|| {
        let named = std::env::var("TSUGI_RT_PLAIN").unwrap_or_default();
        ALL.map(|(_, name)| named.split(',').any(|word| word == name || word == "all"))
    });

    pub(super) fn is_named(trick: RuntimeTrick) -> bool {
        PLAIN[trick as usize]
    }
}
