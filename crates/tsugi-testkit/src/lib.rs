//! Scripted servers, faulty links and golden-file helpers, for tests only.
//!
//! | piece | what for |
//! | --- | --- |
//! | [`golden`] | outward text compared with a file; `UPDATE_GOLDEN=1` writes it |
//! | [`script`] | what a scripted server does wrong, as data |
//! | [`scripted`] | a server that follows a script: as a child process (`tsugi-testkit-server`) or in this process |
//! | [`journal`] | what a scripted server saw and did, told from outside |
//! | [`fake`] | a TCP, HTTP or TLS peer whose answers are scripted byte by byte |
//! | [`process`] | living processes that carry a mark, counted from outside; memory and open files |
//! | [`careless`] | a client that does everything wrong: a fault test must fail on it |
//! | [`token_forge`] | keys that sign access tokens, right ones and forged ones |
//! | [`test_authority`] | a certificate authority: good, expired and revoked certificates |
//! | [`wait`] | waiting for a condition instead of for a time |
//!
//! # A server that misbehaves
//!
//! ```no_run
//! use tsugi_testkit::{script::{Action, Rule, Script}, scripted::Scripted};
//!
//! // Dies in the middle of the first call of `count`, and works after that.
//! let server = Scripted::new(Script::legacy().rule(Rule::on_tool("count").launch(1).act(Action::HalfThenExit(3))));
//! let (_program, _args, _env) = (server.program(), server.args(), server.env());
//! // … let the code under test start it and call `count` …
//! assert_eq!(server.journal().effects("count"), 1);
//! ```
//!
//! From a shell the same is `tsugi-testkit-server --state DIR --script '{"era":"legacy","rules":[…]}'`.
//!
//! # Which behaviour is for which row of the fault list
//!
//! | row | script |
//! | --- | --- |
//! | F-02 | `start` + [`Exit`](script::Action::Exit) or [`Signal`](script::Action::Signal), with [`Stderr`](script::Action::Stderr) before it |
//! | F-03 F-04 F-05 | `Exit` on `server/discover`, after `initialize`, on `tools/list` |
//! | F-06 F-07 | `Exit` before, [`HalfThenExit`](script::Action::HalfThenExit) within, `Exit` after `tools/call`; the tool `count` leaves its effects in a file |
//! | F-08 F-09 | `Signal` on any point; `start` + `Exit` for ever; [`Script::launches`](script::Script::launches) changes the script from launch to launch |
//! | F-10 | [`Script::start_delay_ms`](script::Script::start_delay_ms) |
//! | F-11 F-12 F-13 | [`Silence`](script::Action::Silence); [`Progress`](script::Action::Progress) and `Silence`; [`Sleep`](script::Action::Sleep) |
//! | F-14 F-15 F-16 | [`Junk`](script::Action::Junk), [`Script::line_end`](script::Script::line_end), [`Script::pieces`](script::Script::pieces), [`LongLine`](script::Action::LongLine) |
//! | F-17 F-18 F-20 | [`Notifications`](script::Action::Notifications), [`StopReading`](script::Action::StopReading), [`StderrFlood`](script::Action::StderrFlood) |
//! | F-21 F-22 | [`Answer`](script::Action::Answer) with a [`Form`](script::Form); [`Ask`](script::Action::Ask) |
//! | F-23 F-25 | [`CloseStdout`](script::Action::CloseStdout), [`CloseStdin`](script::Action::CloseStdin), [`Script::ignores_eof`](script::Script::ignores_eof), [`Script::ignores_sigterm`](script::Script::ignores_sigterm), `Signal("STOP")` |
//! | F-26 F-27 F-28 | [`Children`](script::Action::Children), [`Detached`](script::Action::Detached), `--launcher`, [`Allocate`](script::Action::Allocate), [`Spin`](script::Action::Spin) |
//! | F-29 F-30 | the tool `big`, [`Script::extra_tools`](script::Script::extra_tools), [`Script::paging`](script::Script::paging), [`Script::claims_version`](script::Script::claims_version), `launches` |
//! | H-01 | [`fake::tls`], [`fake::BlackHole`], [`fake::refused`] |
//! | H-02 H-04…H-11 | [`fake::Fake`] with the replies of [`fake::reply`] |
//! | H-03 H-12 H-15 H-16 | a scripted server over HTTP: [`ForgetSessions`](script::Action::ForgetSessions), rules on `DELETE` and `subscriptions/listen` |
//! | H-13 | [`fake::reply::json_then_close`] (the keep-alive race; HTTP/2 has no fake here) |
//! | H-14 | a rule with [`Rule::every`](script::Rule::every) |

pub mod careless;
pub mod fake;
pub mod golden;
pub mod journal;
pub mod process;
pub mod script;
pub mod scripted;
pub mod test_authority;
pub mod token_forge;
pub mod wait;
