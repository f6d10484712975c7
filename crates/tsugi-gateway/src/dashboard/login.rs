//! Signing in at the dashboard through a provider: the way there, the way back, and the page between.

use ::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use ::http::{HeaderValue, Response, StatusCode};
use tsugi_auth::login::{LoginProblem, LoginRefusal, ReturnPlace};
use tsugi_protocol::answer::FaultCode;

use crate::audit::{self, AuditEvent};
use crate::body::ResponseBody;
use crate::face::FaceRequest;
use crate::guard::oauth::login::LoginService;
use crate::guard::refusal::HttpRefusal;

/// `GET /auth/login/{provider}`: sends the browser to the provider.
pub(crate) async fn begin(asked: &FaceRequest<'_>, provider: &str) -> Result<Response<ResponseBody>, HttpRefusal> {
    let logins = logins(asked)?;
    let return_to = ReturnPlace::parse(asked.parts.uri.query().unwrap_or_default());
    let start = match logins.begin(provider, return_to, asked.principal.session()).await {
        Ok(start) => start,
        Err(LoginRefusal::UnknownProvider) => return Err(no_provider()),
        Err(refusal) => return Ok(refuse(refusal)),
    };
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(LOCATION, header(start.address));
    headers.insert(SET_COOKIE, header(start.cookie));
    harden(&mut response);
    Ok(response)
}

/// `GET /auth/callback/{provider}`: the provider has sent the browser back.
pub(crate) async fn finish(asked: &FaceRequest<'_>, provider: &str) -> Result<Response<ResponseBody>, HttpRefusal> {
    let (logins, guard) = (logins(asked)?, asked.gateway.guard());
    guard.check_guesses(asked.parts, asked.peer)?;
    let finished = logins.finish(provider, asked.parts.uri.query().unwrap_or_default(), &asked.parts.headers).await;
    let address = audit::address_of(asked.parts);
    let trail = asked.gateway.metrics().audit();
    let mut response = match finished {
        Ok(login) => {
            let place = login.return_to.address();
            let (principal, grant) = guard.sign_in_person(login, asked.parts);
            tracing::info!(caller = %principal.identity(), role = ?principal.role(), "signed in at the dashboard");
            if let Some(trail) = trail {
                trail.note(&AuditEvent::SignedIn { caller: principal.caller(), address: address.as_deref() });
            }
            let mut response = page(StatusCode::OK, &place, "You are signed in.");
            response.headers_mut().append(SET_COOKIE, header(grant.set_cookie()));
            response
        }
        Err(refusal) => {
            // Any web page can send browsers here without a sign-in of ours: that must not lock their address out.
            if refusal.cost_a_request() {
                guard.count_failed_login(asked.parts, asked.peer);
            }
            if let Some(trail) = trail {
                trail.note(&AuditEvent::CredentialRefused { address: address.as_deref() });
            }
            refuse(refusal)
        }
    };
    response.headers_mut().append(SET_COOKIE, header(logins.clear_cookie()));
    Ok(response)
}

fn logins<'a>(asked: &'a FaceRequest<'_>) -> Result<&'a LoginService, HttpRefusal> {
    asked.gateway.guard().logins().ok_or_else(no_provider)
}

fn no_provider() -> HttpRefusal {
    let message = "this gateway has no such provider to sign in through";
    HttpRefusal::new(StatusCode::NOT_FOUND, FaultCode::InvalidRequest, message)
}

/// Says that a sign-in failed: the rule to the log, and what to do to the person.
fn refuse(refusal: LoginRefusal) -> Response<ResponseBody> {
    tracing::info!(target: "tsugi_access", rule = %refusal.rule(), reason = %refusal, "refused a sign-in through a provider");
    let problem = refusal.problem();
    let status = match problem {
        LoginProblem::StartAgain => StatusCode::BAD_REQUEST,
        LoginProblem::Denied | LoginProblem::NoRole => StatusCode::FORBIDDEN,
        LoginProblem::Provider => StatusCode::BAD_GATEWAY,
    };
    page(status, &format!("/#/sign-in/{}", problem.name()), problem.text())
}

/// A page that goes on by itself. A redirect would not do: it would still be the navigation that the provider began, and
/// browsers do not send a cookie that is `SameSite=Strict` with that.
fn page(status: StatusCode, place: &str, text: &str) -> Response<ResponseBody> {
    // The only sign in these addresses that HTML would read.
    let place = place.replace('&', "&amp;");
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>tsugi</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={place}\"><p>{text} <a href=\"{place}\">Go on</a></p></html>"
    );
    let mut response = Response::new(ResponseBody::one(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    harden(&mut response);
    response
}

/// The address of these pages holds a code, and their answers hold cookies.
fn harden(response: &mut Response<ResponseBody>) {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let policy = "default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
}

fn header(value: String) -> HeaderValue {
    HeaderValue::try_from(value).expect("addresses and cookies of ours are plain text")
}
