package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// packed is a module to be packed for the proxy.
type packed struct {
	// root is the folder of the module. core is the path of module larder; the paths of the other
	// modules begin with it.
	root, core, version string
}

// pathOf returns the path of the module in a folder.
func pathOf(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	return modfile.ModulePath(text), nil
}

// write adds the module to the proxy.
func (p packed) write(out string, at time.Time, added []string) error {
	path, err := pathOf(p.root)
	if err != nil {
		return err
	}
	escaped, err := module.EscapePath(path)
	if err != nil {
		return err
	}
	folder := filepath.Join(out, escaped, "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	staged, err := os.MkdirTemp("", "larder-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staged)
	if err := p.stage(staged, added); err != nil {
		return err
	}
	goMod, err := p.goMod()
	if err != nil {
		return err
	}
	for _, name := range []string{filepath.Join(staged, "go.mod"), filepath.Join(folder, p.version+".mod")} {
		if err := os.WriteFile(name, goMod, 0o644); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(folder, p.version+".zip"))
	if err != nil {
		return err
	}
	defer archive.Close()
	version := module.Version{Path: path, Version: p.version}
	if err := zip.CreateFromDir(archive, version, staged); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return writeInfo(folder, p.version, at)
}

// stage copies the module's files. The zip function omits the files of nested modules.
func (p packed) stage(to string, added []string) error {
	files := exec.Command("git", "ls-files", "-z")
	files.Dir = p.root
	names, err := files.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(p.root, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	for _, folder := range added {
		if err := os.CopyFS(to, os.DirFS(folder)); err != nil {
			return err
		}
	}
	licenses, err := filepath.Glob(filepath.Join(p.root, "LICENSE*"))
	if err != nil || len(licenses) > 0 {
		return err
	}
	return p.addLicense(to)
}

// addLicense copies the project's license, without which pkg.go.dev shows no documentation.
func (p packed) addLicense(to string) error {
	top := exec.Command("git", "rev-parse", "--show-toplevel")
	top.Dir = p.root
	folder, err := top.Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	licenses, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(folder)), "LICENSE*"))
	if err != nil {
		return err
	}
	for _, license := range licenses {
		if err := copyFile(license, filepath.Join(to, filepath.Base(license))); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	bytes, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, bytes, 0o644)
}

// goMod returns the go.mod that users of the module receive.
func (p packed) goMod() ([]byte, error) {
	name := filepath.Join(p.root, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	file, err := modfile.Parse(name, text, nil)
	if err != nil {
		return nil, err
	}
	for _, replace := range file.Replace {
		if err := file.DropReplace(replace.Old.Path, replace.Old.Version); err != nil {
			return nil, err
		}
	}
	for _, require := range file.Require {
		path := require.Mod.Path
		if path == p.core || strings.HasPrefix(path, p.core+"/") {
			if err := file.AddRequire(path, p.version); err != nil {
				return nil, err
			}
		}
	}
	file.Cleanup()
	return file.Format()
}
