//! The same requests in each dialect.

/// A dialect: one of the three protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Text,
    Meta,
    Binary,
}

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    Set,
}

/// Number of items, requested one after the other: few enough to fit in the processor's caches.
pub(crate) const KEYS: usize = 1000;

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Set => "set",
        }
    }
}

impl Dialect {
    pub(crate) const ALL: [Self; 3] = [Self::Text, Self::Meta, Self::Binary];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Meta => "meta",
            Self::Binary => "binary",
        }
    }

    /// Returns a request for each key.
    pub(crate) fn requests(self, operation: Operation, value_bytes: usize) -> Vec<u8> {
        let value = vec![b'v'; value_bytes];
        let mut requests = Vec::new();
        for key in 0..KEYS {
            let key = format!("key:{key:012}");
            match (self, operation) {
                (Self::Text, Operation::Get) => requests.extend(format!("get {key}\r\n").bytes()),
                (Self::Meta, Operation::Get) => {
                    requests.extend(format!("mg {key} v f\r\n").bytes());
                }
                (Self::Text, Operation::Set) => {
                    requests.extend(format!("set {key} 0 0 {value_bytes}\r\n").bytes());
                }
                (Self::Meta, Operation::Set) => {
                    requests.extend(format!("ms {key} {value_bytes}\r\n").bytes());
                }
                (Self::Binary, Operation::Get) => binary(&mut requests, 0x00, 0, &key, 0),
                (Self::Binary, Operation::Set) => binary(&mut requests, 0x01, 8, &key, value_bytes),
            }
            if operation == Operation::Set {
                requests.extend(&value);
                requests.extend(if self == Self::Binary { &b""[..] } else { b"\r\n" });
            }
        }
        requests
    }

    /// Returns the length of all replies.
    pub(crate) fn answer_bytes(self, operation: Operation, value_bytes: usize) -> usize {
        let digits = value_bytes.to_string().len();
        let bytes = match (self, operation) {
            (Self::Text, Operation::Get) => {
                "VALUE key:000000000000 0 \r\n\r\nEND\r\n".len() + digits
            }
            (Self::Meta, Operation::Get) => "VA  f0\r\n\r\n".len() + digits,
            (Self::Binary, Operation::Get) => 24 + 4,
            (Self::Text, Operation::Set) => "STORED\r\n".len(),
            (Self::Meta, Operation::Set) => "HD\r\n".len(),
            (Self::Binary, Operation::Set) => 24,
        };
        KEYS * (bytes + if operation == Operation::Get { value_bytes } else { 0 })
    }
}

/// Appends a binary request's header, extras of zeros, and key.
fn binary(requests: &mut Vec<u8>, opcode: u8, extras_bytes: u8, key: &str, value_bytes: usize) {
    let body_bytes = usize::from(extras_bytes) + key.len() + value_bytes;
    requests.extend([0x80, opcode]);
    requests.extend(u16::try_from(key.len()).expect("a short key").to_be_bytes());
    requests.extend([extras_bytes, 0, 0, 0]);
    requests.extend(u32::try_from(body_bytes).expect("a short value").to_be_bytes());
    requests.extend([0; 12]);
    requests.extend(vec![0; usize::from(extras_bytes)]);
    requests.extend(key.bytes());
}
