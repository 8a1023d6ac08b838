package runs

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// unknown stands for what provenance could not find out.
const unknown = "unknown"

// Provenance says which program a run comes from, and where it ran: code_version,
// code_dirty ("true", "false" or "unknown") and code_from (how these are known),
// go, os, arch, host, gomaxprocs, command, and module:<path> for each library.
func Provenance(command []string) map[string]string {
	p := map[string]string{
		"code_version": unknown, "code_dirty": unknown, "code_from": unknown,
		"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
		"host": hostname(), "gomaxprocs": strconv.Itoa(runtime.GOMAXPROCS(0)), "command": quoted(command),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		describeBuild(p, info)
	}
	return p
}

// describeBuild adds the versions of our code and of its libraries.
func describeBuild(p map[string]string, info *debug.BuildInfo) {
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		p["module:"+m.Path] = m.Version
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	switch version := info.Main.Version; {
	case settings["vcs.revision"] != "":
		p["code_version"], p["code_dirty"], p["code_from"] = settings["vcs.revision"], settings["vcs.modified"], "build"
	case version != "" && version != "(devel)":
		p["code_version"], p["code_dirty"], p["code_from"] = version, "false", "module version"
	default:
		askGit(p, info.Main.Path)
	}
}

// askGit fills in the version of the source in the working directory: go run
// and go test stamp none. It looks only inside the module itself, lest the
// version of somebody's other repository be taken for ours.
func askGit(p map[string]string, module string) {
	dir, err := os.Getwd()
	if err != nil || !insideModule(dir, module) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	revision, err := exec.CommandContext(ctx, "git", "-C", dir, "rev-parse", "--verify", "HEAD").Output()
	if err != nil {
		return
	}
	p["code_version"], p["code_from"] = strings.TrimSpace(string(revision)), "git in the working directory"
	if status, err := exec.CommandContext(ctx, "git", "--no-optional-locks", "-C", dir, "status", "--porcelain").Output(); err == nil {
		p["code_dirty"] = strconv.FormatBool(len(strings.TrimSpace(string(status))) > 0)
	}
}

// insideModule says whether the innermost go.mod at or above dir declares module.
func insideModule(dir, module string) bool {
	file, err := os.Open(filepath.Join(dir, "go.mod"))
	if err != nil {
		parent := filepath.Dir(dir)
		return parent != dir && insideModule(parent, module)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == "module" {
			return strings.Trim(fields[1], `"`) == module
		}
	}
	return false
}

// quoted joins a command line so that a shell would split it the same way.
func quoted(command []string) string {
	words := make([]string, len(command))
	for i, w := range command {
		if w == "" || strings.ContainsFunc(w, isSpecialToShell) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words[i] = w
	}
	return strings.Join(words, " ")
}

func isSpecialToShell(r rune) bool {
	return r <= ' ' || strings.ContainsRune("\"'`$&|;<>()[]{}*?!#~\\", r)
}
