package main

import (
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// formats lists the package formats.
var formats = []string{"deb", "rpm"}

// makePackages writes a package of each format for each Linux platform.
func (r *release) makePackages(ctx context.Context) error {
	if len(r.linux()) == 0 {
		return nil
	}
	if err := r.preparePackages(ctx); err != nil {
		return err
	}
	for _, p := range r.linux() {
		for _, format := range formats {
			if err := r.makePackage(p, format); err != nil {
				return err
			}
		}
	}
	return nil
}

// inPackage returns the path of an intermediate file for packages.
func (r *release) inPackage(name string) string { return filepath.Join(r.work, "package", name) }

// preparePackages writes the files that exist only in packages: the unit, the first configuration, and compressed man
// pages.
func (r *release) preparePackages(ctx context.Context) error {
	if err := os.MkdirAll(r.inPackage(""), 0o755); err != nil {
		return err
	}
	capgate, err := r.own(ctx)
	if err != nil {
		return err
	}
	config, err := r.command(ctx, nil, capgate, "init", "-")
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.inPackage("capgate.yaml"), []byte(config+"\n"), 0o644); err != nil {
		return err
	}
	if err := r.writeUnit(); err != nil {
		return err
	}
	for _, m := range manPages {
		if err := r.compress("man/" + m.file()); err != nil {
			return err
		}
	}
	return nil
}

// writeUnit writes the systemd unit with the program's path in packages.
func (r *release) writeUnit() error {
	text, err := os.ReadFile(filepath.Join(r.source, "deploy/systemd/capgate.service"))
	if err != nil {
		return err
	}
	_, unit, found := strings.Cut(string(text), "[Unit]\n") // the comment before it describes a manual installation
	moved := strings.ReplaceAll(unit, "=/usr/local/bin/capgate ", "=/usr/bin/capgate ")
	if !found || moved == unit {
		return errors.New("the unit does not run /usr/local/bin/capgate; correct writeUnit")
	}
	return os.WriteFile(r.inPackage("capgate.service"), []byte("[Unit]\n"+moved), 0o644)
}

// compress writes a document for packages, compressed.
func (r *release) compress(name string) error {
	content, err := os.ReadFile(filepath.Join(r.documents(), name))
	if err != nil {
		return err
	}
	f, err := os.Create(r.inPackage(filepath.Base(name) + ".gz"))
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	_, err = z.Write(content)
	return errors.Join(err, z.Close(), f.Close())
}

// packageName returns the name of a package's file. The version in a package of a prerelease has "~" in place of "-",
// so that it precedes its release. The file name keeps "-", because GitHub renames files with "~".
func (r *release) packageName(p platform, format string) string {
	if format == "deb" {
		return "capgate_" + r.number() + "_" + p.arch + ".deb"
	}
	return "capgate-" + r.number() + "-1." + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[p.arch] + ".rpm"
}

// makePackage writes a package.
func (r *release) makePackage(p platform, format string) error {
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	f, err := os.Create(r.file(r.packageName(p, format)))
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(r.packageInfo(p, format))
	return errors.Join(packager.Package(info, f), f.Close())
}

// packageInfo describes a package.
func (r *release) packageInfo(p platform, format string) *nfpm.Info {
	i := &nfpm.Info{
		Name: "capgate", Arch: p.arch, Platform: p.system, Version: r.number(), MTime: r.date, Section: "net",
		Priority: "optional", Maintainer: "capgate <" + project + "/issues>", Vendor: "capgate", License: license,
		Homepage: project, Description: "Gateway for the tools of AI agents\n" +
			"Agents call tools over gRPC, JSON or MCP. The gateway authenticates and limits\n" +
			"callers, applies rules and approvals, and finds healthy backends.",
	}
	if format == "rpm" {
		i.Release = "1"
	}
	i.RPM.BuildHost = "localhost" // instead of this machine's name, so that two builds are equal
	i.RPM.Summary = "Gateway for the tools of AI agents"
	i.Contents = r.packageContents(p, format)
	scripts := filepath.Join(r.source, "deploy/packages")
	i.Scripts = nfpm.Scripts{
		PostInstall: filepath.Join(scripts, "postinstall.sh"), PreRemove: filepath.Join(scripts, "preremove.sh"),
		PostRemove: filepath.Join(scripts, "postremove.sh"),
	}
	i.Deb.Compression = "gzip"
	return i
}

// packageContents lists the files of a package. Upgrades keep the configuration.
func (r *release) packageContents(p platform, format string) files.Contents {
	zsh := "/usr/share/zsh/vendor-completions/"
	if format == "rpm" {
		zsh = "/usr/share/zsh/site-functions/"
	}
	script := func(shell string) string { return filepath.Join(r.documents(), "completions", completions[shell]) }
	all := files.Contents{
		{Destination: "/etc/capgate", Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Mode: 0o750}},
		content(r.inPackage("capgate.yaml"), "/etc/capgate/capgate.yaml", 0o640),
		content(r.inPackage("capgate.service"), "/usr/lib/systemd/system/capgate.service", 0o644),
		content(filepath.Join(r.source, "LICENSE"), "/usr/share/doc/capgate/copyright", 0o644),
		content(filepath.Join(r.source, "capgate.example.yaml"), "/usr/share/doc/capgate/capgate.example.yaml", 0o644),
		content(script("bash"), "/usr/share/bash-completion/completions/capgate", 0o644),
		content(script("fish"), "/usr/share/fish/vendor_completions.d/capgate.fish", 0o644),
		content(script("zsh"), zsh+"_capgate", 0o644),
	}
	all[1].Type = files.TypeConfigNoReplace
	for _, name := range programs {
		all = append(all, content(r.program(p, name), "/usr/bin/"+name, 0o755))
	}
	for _, m := range manPages {
		name := m.file() + ".gz"
		all = append(all, content(r.inPackage(name), "/usr/share/man/man"+m.section+"/"+name, 0o644))
	}
	for _, c := range all {
		c.FileInfo.MTime, c.FileInfo.Owner, c.FileInfo.Group = r.date, "root", "root"
	}
	return all
}

// content returns a file of a package.
func content(from, to string, mode os.FileMode) *files.Content {
	return &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Mode: mode}}
}
