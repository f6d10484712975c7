//! ID tokens: what a provider says about a person who has just signed in (OpenID Connect Core §3.1.3.7).
//!
//! The token came from the token endpoint itself, and its signature is checked all the same: then a wrong address in the
//! metadata or a broken certificate check is not enough to make up a person.

use serde_json::{Map, Value};

use crate::jose::jws::CompactJws;
use crate::jose::key_set::KeySet;
use crate::scope::ScopeSet;
use crate::strict_json;
use crate::token::{TokenClaims, TokenRefusal, TokenRules, audiences};

/// What an ID token of one sign-in must satisfy.
pub struct IdTokenRules<'a> {
    pub issuer: &'a TokenRules,
    /// Our id at the provider.
    pub client: &'a str,
    /// Audiences that may stand beside our own.
    pub trusted_audiences: &'a [String],
    /// The nonce of the sign-in.
    pub nonce: &'a str,
}

/// An ID token whose form is right and whose signature was not checked yet.
pub struct UnverifiedIdToken<'a> {
    jws: CompactJws<'a>,
    claims: Map<String, Value>,
}

impl<'a> UnverifiedIdToken<'a> {
    /// Splits a token and reads header and claims.
    pub fn parse(text: &'a str) -> Result<Self, TokenRefusal> {
        let jws = CompactJws::parse(text)?;
        // An access token (`at+jwt`) or a logout token (`logout+jwt`) signs no one in.
        if jws.header.media_type.as_deref().is_some_and(|name| name != "jwt") {
            return Err(TokenRefusal::TypeNotAllowed);
        }
        let claims = strict_json::parse_object(jws.unverified_payload()).ok_or(TokenRefusal::ClaimsNotStrict)?;
        Ok(Self { jws, claims })
    }

    pub fn key_id(&self) -> Option<&str> {
        self.jws.header.key_id.as_deref()
    }

    /// Checks signature and claims; `now` is in seconds since 1970.
    pub fn verify(self, rules: &IdTokenRules<'_>, keys: &KeySet, now: u64) -> Result<TokenClaims, TokenRefusal> {
        let (text, claims) = (|name: &str| self.claims.get(name).and_then(Value::as_str), &self.claims);
        if text("iss") != Some(rules.issuer.issuer.as_str()) {
            return Err(TokenRefusal::UnknownIssuer);
        }
        if !rules.issuer.algorithms.contains(&self.jws.header.algorithm) {
            return Err(TokenRefusal::AlgorithmNotAllowed);
        }
        self.jws.verify(keys)?;
        let expires = rules.issuer.check_dates(claims, now)?;
        // An access token need not say when it was issued; an ID token must.
        if !claims.contains_key("iat") {
            return Err(TokenRefusal::BadClaim("iat"));
        }
        rules.check_audience(claims)?;
        if text("nonce") != Some(rules.nonce) {
            return Err(TokenRefusal::OtherNonce);
        }
        // Logout tokens are signed with the same keys and for the same client, and must have this member.
        if claims.contains_key("events") {
            return Err(TokenRefusal::BadClaim("events"));
        }
        Ok(TokenClaims {
            issuer: rules.issuer.issuer.clone(),
            subject: crate::token::subject(claims)?,
            client: Some(rules.client.to_owned()),
            scopes: ScopeSet::default(),
            expires,
            all: self.claims,
        })
    }
}

impl IdTokenRules<'_> {
    /// The token must be for us; others among its audiences must be trusted, and then it must say that it was issued to us.
    fn check_audience(&self, claims: &Map<String, Value>) -> Result<(), TokenRefusal> {
        let audiences = audiences(claims)?;
        let is_ours = |audience: &String| audience == self.client;
        let is_trusted = |audience: &String| is_ours(audience) || self.trusted_audiences.contains(audience);
        if !audiences.iter().any(is_ours) || !audiences.iter().all(is_trusted) {
            return Err(TokenRefusal::WrongAudience);
        }
        match claims.get("azp") {
            None if audiences.len() == 1 => Ok(()),
            Some(party) if party.as_str() == Some(self.client) => Ok(()),
            _ => Err(TokenRefusal::OtherClient),
        }
    }
}
