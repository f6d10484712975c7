//! Issuers that sign anything: access tokens for tests, right ones and forged ones.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::{KeyPair as RsaKeyPair, PublicKeyComponents};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding,
};
use serde_json::{Value, json};

/// A private key that signs whatever it is given, with its public half as a JWK.
pub struct ForgeKey {
    id: String,
    pair: ForgePair,
}

enum ForgePair {
    Ec(&'static str, EcdsaKeyPair),
    Edwards(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

impl ForgeKey {
    /// A new P-256 key.
    pub fn es256(id: &str) -> Self {
        Self { id: id.to_owned(), pair: ForgePair::Ec("P-256", ec(&ECDSA_P256_SHA256_FIXED_SIGNING)) }
    }

    /// A new P-384 key.
    pub fn es384(id: &str) -> Self {
        Self { id: id.to_owned(), pair: ForgePair::Ec("P-384", ec(&ECDSA_P384_SHA384_FIXED_SIGNING)) }
    }

    /// A new Ed25519 key.
    pub fn ed25519(id: &str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a random key");
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("the key that was just made");
        Self { id: id.to_owned(), pair: ForgePair::Edwards(pair) }
    }

    /// The RSA key of this file, which is known to everyone: ring cannot make one.
    pub fn rsa(id: &str) -> Self {
        let der = STANDARD.decode(RSA_KEY.concat()).expect("the key of this file");
        let pair = RsaKeyPair::from_der(&der).expect("the key of this file");
        Self { id: id.to_owned(), pair: ForgePair::Rsa(Box::new(pair)) }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The public half (RFC 7517).
    pub fn jwk(&self) -> Value {
        let (id, encode) = (&self.id, |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes));
        match &self.pair {
            ForgePair::Ec(curve, pair) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                json!({"kty": "EC", "kid": id, "use": "sig", "crv": curve, "x": encode(x), "y": encode(y)})
            }
            ForgePair::Edwards(pair) => {
                json!({"kty": "OKP", "kid": id, "use": "sig", "crv": "Ed25519", "x": encode(pair.public_key().as_ref())})
            }
            ForgePair::Rsa(pair) => {
                let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "kid": id, "use": "sig", "n": encode(&n), "e": encode(&e)})
            }
        }
    }

    /// The algorithm that fits the key; for RSA, the older one.
    pub fn algorithm(&self) -> &'static str {
        match &self.pair {
            ForgePair::Ec("P-256", _) => "ES256",
            ForgePair::Ec(..) => "ES384",
            ForgePair::Edwards(_) => "EdDSA",
            ForgePair::Rsa(_) => "RS256",
        }
    }

    /// A token as an issuer writes it, with the header that fits this key.
    pub fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": self.algorithm(), "kid": self.id, "typ": "at+jwt"}), claims)
    }

    /// A token with any header and any claims.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        self.sign_raw(&header.to_string(), &claims.to_string())
    }

    /// A token of any two texts.
    pub fn sign_raw(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = self.signature(message.as_bytes(), header.contains("PS256"));
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn signature(&self, message: &[u8], is_pss: bool) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            ForgePair::Ec(_, pair) => pair.sign(&random, message).expect("a signature").as_ref().to_vec(),
            ForgePair::Edwards(pair) => pair.sign(message).as_ref().to_vec(),
            ForgePair::Rsa(pair) => {
                let padding: &dyn RsaEncoding = if is_pss { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &random, message, &mut signature).expect("a signature");
                signature
            }
        }
    }
}

/// The set that an issuer with these keys publishes.
pub fn key_set<'a>(keys: impl IntoIterator<Item = &'a ForgeKey>) -> Value {
    json!({"keys": keys.into_iter().map(ForgeKey::jwk).collect::<Vec<_>>()})
}

/// One part of a token.
pub fn encode(part: &str) -> String {
    URL_SAFE_NO_PAD.encode(part)
}

fn ec(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a random key");
    EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("the key that was just made")
}

/// A private key for tests only, as PKCS #1.
const RSA_KEY: [&str; 16] = [
    "MIIEpAIBAAKCAQEAzqH8WkcIreW3g/U7T7y+m3B7lGxVE0toWiYP65giMoWlo4LCKr9W4/kHgA2jLwl41IPJ6SYZSIyT7F0dx3/1",
    "1rXE6H5Rvkg0VHzZCmbhnGPnksVzjQQZ7wQ/YbzWC002p6/vqjcoUqhEqiScErB2inTm+yG9L96AefRscMTApp/qHTTYGdNXJmjy",
    "cGZHBsPv9Q8JTH9Aq1xKGgyymVGTWtUcoS1Xdisy9tFlghSBnqS1xA9FckmtQDzguJPaD8J4/LtPw/qN4y1ktjspbPKMQUrYOT02",
    "bs1MgTJRd1evgBaIOVoT0RkE/dF21pJOliTTVN/XunFUU3netMvQW/ZdtwIDAQABAoIBAEHcFntNxcHrhH0ONkvZbGVNyk3J46nl",
    "MIr/M7bTRB8XQu6lWC7Y0qCR+KaDcj4lRjpyEPJ7fraFfAZrvXifW+OGBw9VZ8d+6xL8wg7TMNiwbRh2T7ikFIH+uBb2YcCzaRa0",
    "eG6n6vXBhTU3uvkn/nht/0sO+2ZdBFUap0+gHolcvuWGVEk4KwEZZtzzClKdXreA4Qgrt8gs2IFOSvMKSFwwKACPWZMWs4f+EP0J",
    "jiS72IOx99YJaIgk/VQAmtdRDTFr/2AKedu1UouvvkD95y1cK/AK1HOOF2+OO2l5hvAaoOGeuYDLXgsGhPP7RoLJqtKvCBdSWSxs",
    "wgYLFceGq20CgYEA+QXRatdbvEd2LOC/vE5MR1FAgbhQkA0OPB/vtXGnRPS2EtC8EyjGrY+UNC2O+691eUhRu78Mi66QOjFqjyyl",
    "CBmUJd+JQhJpREXVqTn8LVqk9ZgLMDpOObCVpdR0Hzc+B2lNl8FYq+Kn87awrsBidiTvcwxbDPzCSK02N/z705MCgYEA1GwdRbEn",
    "W+kuz+aIBB9Du+tdn/wywmPmR059MRolAP5EfSxMsdGSTNwkvKsYHy+3WwehrK1rqJHCi51pfS9VZL+fL0jJY+hbF/O0e310r8KF",
    "Pr7xRaprMfLEIjsN9nasrXHA14SwctA8stK3teHHnTltNnEPr2v4Fm71ZJJS680CgYEAhITwGOdaTivJW8COyGrydNFsfpvTY5VP",
    "CfgE3I4K8cs4SXMDYz7D3AEYYVwNRyrsXQp7VGorBvpyjkVV67Nab6ENEcqPhLW/hzGSrmfJJ2mhd4DeE2Az2Md8G6+fzCzduZv0",
    "Stn9khsgPbXu+FAxFaY6NwNQQO0RhxOGUu0yJjkCgYEAjKAOOObwgX47iVK6VNBFzRAh6RnSmLH97tLdOjZurNunh55eH5H34n4S",
    "q/wweeTi45aHx4L/NJdaTYcmIMPHKm1Y+rqa6FMYiyDBKMeDCiAiiclqfI43bNekVGz372PdKO2XlpW3IisNI+0vxW708PblgBcV",
    "JTK7CE7okW31CzkCgYAv46NP6W7pYI32h2j/+gIuceHzuORm8TPrAQLTTVPG2B4apK8HcRW1Zqt2uKv3XwivaP+FTy6rbtrwHsNP",
    "FfX5X39UQpQ7WP9OG3RnQKZbey4FJfc7OLRh81SpCovfLl0p7tEnnZ+Du3VG7RrlEgWQqW9j2ublNGke/gARYmpWeQ==",
];
