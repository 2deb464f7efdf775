//! The HTTP API of a near cache: items are those of the origin.

use anyhow::{Result, ensure};
use larder_testkit::{ServerUnderTest, Transport, http};

use super::{await_state, get, hit, set, shown};
use crate::binary;

#[test]
fn items_over_http_are_those_of_the_origin() -> Result<()> {
    let origin = ServerUnderTest::start(&binary(), Transport::Tcp, &["--followers=4"])?;
    let option = format!("--origin={}", shown(origin.address()));
    let (near, admin) = http::start(&binary(), &[&option])?;
    await_state(&near, "copies")?;
    let (mut direct, mut client) = (origin.connect()?, near.connect()?);
    set(&mut direct, "k", "old")?;
    assert_eq!(get(&mut client, "k")?, hit("k", "old"));
    let request = |method: &str, path: &str, body: &str| {
        let bytes = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {bytes}\r\n\r\n{body}"
        );
        http::exchange(&admin, request.as_bytes())
    };
    assert_eq!(request("PUT", "/api/v1/cache/k?ttl=60", "new")?.status, 201);
    assert_eq!(get(&mut client, "k")?, hit("k", "new"), "the copy is dropped");
    assert_eq!(get(&mut direct, "k")?, hit("k", "new"));
    let found = http::get(&admin, "/api/v1/cache/k", &[])?;
    assert_eq!((found.status, &*found.body), (200, "new"));
    let large = "v".repeat(100_000);
    assert_eq!(request("PUT", "/api/v1/cache/large", &large)?.status, 201);
    assert_eq!(get(&mut direct, "large")?, hit("large", &large));
    assert_eq!(http::get(&admin, "/api/v1/cache/large", &[])?.body, large);
    assert_eq!(request("PUT", "/api/v1/cache/k", &"v".repeat(2 << 20))?.status, 413);
    assert_eq!(get(&mut direct, "k")?, "END\r\n", "the store that was too large removed the item");
    assert_eq!(request("DELETE", "/api/v1/cache/large", "")?.status, 200);
    assert_eq!(request("DELETE", "/api/v1/cache/large", "")?.status, 404);
    assert_eq!(http::get(&admin, "/api/v1/cache/large", &[])?.status, 404);
    set(&mut direct, "k", "v")?;
    assert_eq!(get(&mut client, "k")?, hit("k", "v"));
    assert_eq!(request("DELETE", "/api/v1/cache/clear", "")?.status, 200);
    assert_eq!(get(&mut direct, "k")?, "END\r\n");
    assert_eq!(get(&mut client, "k")?, "END\r\n");
    Ok(())
}

#[test]
fn every_metric_of_a_near_cache_is_a_number() -> Result<()> {
    let (_near, admin) = http::start(&binary(), &["--origin=127.0.0.1:1"])?;
    let page = http::get(&admin, "/metrics", &[])?.body;
    let mut near = 0;
    for line in page.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let value = line.rsplit(' ').next().unwrap_or_default();
        ensure!(value.parse::<f64>().is_ok(), "{line}");
        near += u32::from(line.starts_with("larder_near_"));
    }
    ensure!(near > 10, "{near} metrics of the near cache in:\n{page}");
    Ok(())
}
