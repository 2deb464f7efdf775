//! Reads TCP segments from a packet capture.

use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use etherparse::{EtherType, NetSlice, SlicedPacket, TransportSlice};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

/// A side of a connection.
pub(super) type Endpoint = (IpAddr, u16);

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    /// The sender.
    pub(super) from: Endpoint,
    /// The receiver.
    pub(super) to: Endpoint,
    /// The number of the first byte, or of the SYN.
    pub(super) sequence: u32,
    /// The number of the next byte that the sender expects.
    pub(super) expected: Option<u32>,
    /// True if it opens the connection.
    pub(super) is_syn: bool,
    /// True if the sender sends no more bytes.
    pub(super) is_fin: bool,
    /// True if it ends the connection.
    pub(super) is_reset: bool,
    /// The bytes.
    pub(super) payload: &'a [u8],
}

/// Counts of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacketCounts {
    /// All packets.
    pub(super) packets: u64,
    /// Packets that are cut off or damaged.
    pub(super) unusable: u64,
}

/// An interface of a pcapng file.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: Linktype,
    /// Units of its timestamps per second.
    resolution: u64,
}

/// Calls `take` with the time and the content of each TCP segment of a file.
///
/// # Errors
/// The file cannot be read or is not a capture; also the errors of `take`. A capture that is cut
/// off only causes a warning.
pub(super) fn read(
    path: &Path,
    mut take: impl FnMut(Duration, Segment<'_>) -> Result<()>,
) -> Result<PacketCounts> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot read the capture {shown}"))?;
    let mut reader = create_reader(PACKET_BYTES_MAX, file).map_err(|_| {
        anyhow!("{shown} is not a packet capture: expected pcap or pcapng, as tcpdump -w writes")
    })?;
    let mut counts = PacketCounts::default();
    let mut interfaces = Vec::new();
    loop {
        match reader.next() {
            Ok((bytes, block)) => {
                if let Some((time, link, data)) = packet(&block, &mut interfaces) {
                    counts.packets += 1;
                    match segment(link, data)? {
                        Sliced::Segment(segment) => take(time, segment)?,
                        Sliced::Other => {}
                        Sliced::Unusable => counts.unusable += 1,
                    }
                }
                reader.consume(bytes);
            }
            Err(PcapError::Eof) => return Ok(counts),
            Err(PcapError::Incomplete(_)) => {
                reader.refill().map_err(|error| anyhow!("cannot read {shown}: {error}"))?;
            }
            Err(PcapError::UnexpectedEof) => {
                eprintln!("larder: the capture {shown} is cut off; its last packet is missing");
                return Ok(counts);
            }
            Err(PcapError::BufferTooSmall) => {
                bail!("{shown} has a packet of more than {PACKET_BYTES_MAX} bytes: it is damaged")
            }
            Err(_) => bail!("{shown} is damaged after {} packets", counts.packets),
        }
    }
}

/// Returns the time, the link type and the bytes of a packet. Notes interfaces.
fn packet<'a>(
    block: &PcapBlockOwned<'a>,
    interfaces: &mut Vec<Interface>,
) -> Option<(Duration, Linktype, &'a [u8])> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let resolution =
                if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            *interfaces = vec![Interface { link: header.network, resolution }];
            None
        }
        PcapBlockOwned::Legacy(packet) => {
            let interface = interfaces.first()?;
            let time = time_of(packet.ts_sec.into(), packet.ts_usec.into(), interface.resolution);
            let bytes = packet.data.get(..packet.caplen as usize)?;
            Some((time, interface.link, bytes))
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => {
            interfaces.clear();
            None
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
            let resolution = interface.ts_resolution().unwrap_or(1_000_000).max(1);
            if interfaces.len() < INTERFACES_MAX {
                interfaces.push(Interface { link: interface.linktype, resolution });
            }
            None
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let interface = interfaces.get(packet.if_id as usize)?;
            let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            let (secs, rest) = (units / interface.resolution, units % interface.resolution);
            let bytes = packet.data.get(..packet.caplen as usize)?;
            Some((time_of(secs, rest, interface.resolution), interface.link, bytes))
        }
        PcapBlockOwned::NG(_) => None,
    }
}

fn time_of(secs: u64, units: u64, resolution: u64) -> Duration {
    let nanos = u128::from(units) * 1_000_000_000 / u128::from(resolution);
    Duration::from_secs(secs).saturating_add(Duration::from_nanos(nanos as u64))
}

enum Sliced<'a> {
    Segment(Segment<'a>),
    /// A packet of another protocol.
    Other,
    Unusable,
}

/// Returns the TCP segment in a packet.
///
/// # Errors
/// The capture is of an unknown kind of link.
fn segment(link: Linktype, bytes: &[u8]) -> Result<Sliced<'_>> {
    let sliced = match link {
        Linktype::ETHERNET => SlicedPacket::from_ethernet(bytes).ok(),
        Linktype::LINUX_SLL => SlicedPacket::from_linux_sll(bytes).ok(),
        LINUX_SLL2 => match (bytes.first_chunk::<2>(), bytes.get(LINUX_SLL2_BYTES..)) {
            (Some(kind), Some(rest)) => {
                SlicedPacket::from_ether_type(EtherType(u16::from_be_bytes(*kind)), rest).ok()
            }
            _ => None,
        },
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => SlicedPacket::from_ip(bytes).ok(),
        Linktype::NULL | Linktype::LOOP => {
            bytes.get(4..).and_then(|rest| SlicedPacket::from_ip(rest).ok())
        }
        Linktype(other) => bail!(
            "the capture is of the link type {other}, expected Ethernet, Linux cooked, raw IP or \
             loopback: capture on another interface"
        ),
    };
    let Some(sliced) = sliced else { return Ok(Sliced::Unusable) };
    let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else { return Ok(Sliced::Other) };
    let (from, to): (IpAddr, IpAddr) = match &sliced.net {
        Some(NetSlice::Ipv4(ip)) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        Some(NetSlice::Ipv6(ip)) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        _ => return Ok(Sliced::Other),
    };
    Ok(Sliced::Segment(Segment {
        from: (from, tcp.source_port()),
        to: (to, tcp.destination_port()),
        sequence: tcp.sequence_number(),
        expected: tcp.ack().then(|| tcp.acknowledgment_number()),
        is_syn: tcp.syn(),
        is_fin: tcp.fin(),
        is_reset: tcp.rst(),
        payload: tcp.payload(),
    }))
}

/// The link type of `tcpdump -i any`.
const LINUX_SLL2: Linktype = Linktype(276);

/// The length of its header in bytes; the first two bytes are the protocol.
const LINUX_SLL2_BYTES: usize = 20;

/// The largest packet in bytes.
const PACKET_BYTES_MAX: usize = 1 << 20;

const INTERFACES_MAX: usize = 1024;
