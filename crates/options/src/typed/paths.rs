//! The paths of the options.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};

use crate::typed::discovery::Discovery;
use crate::typed::options::Options;
use crate::value::admin::AdminAddress;
use crate::value::listen::ListenPlace;

impl Options {
    /// Replaces each path by the result of `absolute`. The caller must do this before the process
    /// leaves the directory that relative paths refer to.
    ///
    /// The path of a unix socket is replaced only with `-d`. Without `-d` the process stays in the
    /// directory, and the absolute path may be too long for a socket.
    ///
    /// # Errors
    /// The errors of `absolute`.
    pub fn make_paths_absolute(
        &mut self,
        absolute: impl Fn(&Path) -> io::Result<PathBuf>,
    ) -> io::Result<()> {
        for path in self.paths() {
            let relative = mem::take(path);
            *path = absolute(&relative)?;
        }
        Ok(())
    }

    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let mut paths: Vec<&mut PathBuf> = Vec::new();
        let alone = [
            &mut self.memory_file,
            &mut self.restore.dump,
            &mut self.pidfile,
            &mut self.auth_file,
            &mut self.users,
            &mut self.sasl_file,
            &mut self.admin_token_file,
        ];
        paths.extend(alone.into_iter().flatten());
        if let Some(tls) = &mut self.tls {
            paths.extend([&mut tls.chain_cert, &mut tls.key]);
            paths.extend(&mut tls.ca_cert);
        }
        if let Some(near) = &mut self.near {
            paths.extend(&mut near.authorities);
            paths.extend(&mut near.login);
            paths.extend(&mut near.weights);
        }
        if let Some(Discovery::File(path)) = &mut self.discovery {
            paths.push(path);
        }
        paths.extend(self.disk_tier.as_mut().map(|tier| &mut tier.path));
        if self.daemon {
            paths.extend(&mut self.unix_socket);
            paths.extend(self.listen.iter_mut().filter_map(|at| match &mut at.place {
                ListenPlace::Unix { path, .. } => Some(path),
                ListenPlace::Tcp { .. } => None,
            }));
            paths.extend(self.admin_listen.iter_mut().filter_map(|at| match &mut at.address {
                AdminAddress::Unix { path, .. } => Some(path),
                AdminAddress::Tcp { .. } => None,
            }));
        }
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Id;
    use crate::table::kind::Kind;
    use crate::table::row::Group;

    /// Returns the options with this one, and with those that it needs.
    fn with(name: &'static str, text: &str) -> Options {
        let needed: &[(&str, &str)] = match name {
            name if name.starts_with("ssl_") => {
                &[("enable_ssl", "yes"), ("ssl_chain_cert", "/c"), ("ssl_key", "/k")]
            }
            "origin_ca" => &[("origin", "tls:localhost:1")],
            "origin_login" => &[("origin", "localhost:1")],
            "origin_weights" => &[("origin", "localhost:1,localhost:2")],
            "tier_path" => &[("tier_size", "1g"), ("tier_mode", "store")],
            _ => &[],
        };
        let needed = needed.iter().copied().filter(|(other, _)| *other != name);
        let map = [(name, text), ("daemon", "yes")].into_iter().chain(needed);
        Options::from_map(map).unwrap().0
    }

    /// Tests every option of the table whose value contains a path. So this test fails for a new
    /// option until [`Options::paths`] returns its path.
    #[test]
    fn no_option_keeps_a_relative_path() {
        let mut seen = 0;
        for row in Id::ALL.iter().map(|id| id.row()) {
            let text = match row.kind {
                Kind::Path => "./RELATIVE",
                Kind::FileSize => "./RELATIVE:1g",
                Kind::Listen => "127.0.0.1:1,unix:./RELATIVE",
                Kind::AdminListen => "127.0.0.1:1;./RELATIVE,mode=600",
                _ => continue,
            };
            if row.group == Group::Reading {
                continue;
            }
            let mut options = with(row.name, text);
            options.accepted = Options::default().accepted;
            let shown = |options: &Options| format!("{options:?}");
            assert!(shown(&options).contains("\"./RELATIVE"), "{}: it has a path", row.name);
            options.make_paths_absolute(|path| Ok(Path::new("/folder").join(path))).unwrap();
            let shown = shown(&options);
            assert!(shown.contains("\"/folder/./RELATIVE"), "{}: {shown}", row.name);
            assert!(!shown.contains("\"./RELATIVE"), "{}: {shown}", row.name);
            seen += 1;
        }
        assert!(seen >= 10, "{seen} options");
    }

    #[test]
    fn sockets_stay_relative_where_the_directory_does() {
        let map = [("unix_socket", "s"), ("admin_listen", "./a"), ("auth_file", "users")];
        let (mut options, _) = Options::from_map(map).unwrap();
        options.sasl_file = Some("sasl".into());
        options.make_paths_absolute(|path| Ok(Path::new("/folder").join(path))).unwrap();
        assert_eq!(options.unix_socket.as_deref(), Some(Path::new("s")));
        assert_eq!(options.auth_file.as_deref(), Some(Path::new("/folder/users")));
        assert_eq!(options.sasl_file.as_deref(), Some(Path::new("/folder/sasl")));
        let failed = options.make_paths_absolute(|_| Err(io::ErrorKind::NotFound.into()));
        assert!(failed.is_err());
    }
}
