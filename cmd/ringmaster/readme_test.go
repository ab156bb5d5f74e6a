package main

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/openapi"
)

// guides are the repository's README.md files, by their path.
func guides(t *testing.T) map[string]string {
	t.Helper()
	root, found := filepath.Join("..", ".."), map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "README.md" {
			return err
		}
		text, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, root+"/")] = string(text)
		return err
	}))
	return found
}

// TestGuidesNameCommandsThatExist reads every command of the guides by the command line's own grammar, and every target of make.
func TestGuidesNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	require.NoError(t, err)
	parser, err := newParser(t.Context(), env{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard})
	require.NoError(t, err)
	commands, targets := 0, 0
	for path, text := range guides(t) {
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
			for _, line := range commandLines(block[1]) {
				switch words := strings.Fields(line); words[0] {
				case "ringmaster", "bin/ringmaster", "rm_":
					require.NoError(t, parses(t, parser, words[1:]), "%s: %s", path, line)
					commands++
				case "make":
					require.Regexp(t, `(?m)^`+words[1]+`:`, string(makefile), "%s: %s", path, line)
					targets++
				default: // sessions with the API are typed by the end-to-end suite: TestReadme, TestTheCommandLinesGuide
					typed := path == "README.md" && strings.Contains(block[1], "$BASE") || path == "httpapi/README.md" && strings.Contains(block[1], "RINGMASTER_API_URL")
					require.True(t, notRun()[words[0]] != "" || typed, "%s: nothing runs %q", path, line)
				}
			}
		}
		for _, inline := range regexp.MustCompile("`ringmaster ([^`]+)`").FindAllStringSubmatch(text, -1) {
			err := parses(t, parser, strings.Fields(inline[1]))
			if err != nil { // a sentence names a command without all that it needs, or with a file that isn't there
				require.Regexp(t, `^missing flags|expected|no such file`, err.Error(), "%s: %s", path, inline[0])
			}
			commands++
		}
	}
	require.Greater(t, commands, 25)
	require.Greater(t, targets, 5)
}

// notRun has the other programs of the guides, and why no test runs them.
func notRun() map[string]string {
	const service, machine = "changes services that the machine runs", "writes below /etc, /var or /usr"
	return map[string]string{
		"fs_cli": service, "freeswitch": service, "systemctl": service, "createuser": service, "createdb": service,
		"install": machine, "systemd-sysusers": machine, "systemd-tmpfiles": machine, "mkdir": machine, "mv": machine, "cp": machine,
		"umask": machine, "openssl": machine, "export": "of the shell", "alias": "of the shell",
	}
}

// TestGuidesNameOperationsThatExist holds every path of the API in a guide, with its method where one is named, against the description.
func TestGuidesNameOperationsThatExist(t *testing.T) {
	t.Parallel()
	raw, err := openapi.Document()
	require.NoError(t, err)
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	found := 0
	for path, text := range guides(t) {
		for _, named := range regexp.MustCompile(`(?:(GET|POST|PATCH|PUT|DELETE) )?(/(?:api|fs)/[\w/{}:$-]*[\w}])`).FindAllStringSubmatch(text, -1) {
			if named[2] == "/api/v1" {
				continue
			}
			pattern := regexp.MustCompile("^" + regexp.MustCompile(`\\\{\w+\\\}|\\\$\w+`).ReplaceAllString(regexp.QuoteMeta(named[2]), `\{\w+\}`) + "$")
			exists := false
			for have, methods := range doc.Paths {
				_, method := methods[strings.ToLower(named[1])]
				exists = exists || pattern.MatchString(have) && (named[1] == "" || method)
			}
			require.True(t, exists, "%s: %s", path, named[0])
			found++
		}
	}
	require.Greater(t, found, 20)
}

// commandLines takes a block apart into commands: without comments, what is continued on one line, variables left out.
func commandLines(block string) (lines []string) {
	block = strings.ReplaceAll(block, "\\\n", " ")
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, " #")
		line = regexp.MustCompile(`\$(AGENT|CAMPAIGN|CALL)\b`).ReplaceAllString(line, "0197a3f2-5d3e-7c41-9a39-3c1f0f2a7b10")
		line = regexp.MustCompile(`^\s*[A-Z]+=\$\(`).ReplaceAllString(line, "")
		for _, part := range regexp.MustCompile(`&&|;|\||&`).Split(line, -1) {
			part = regexp.MustCompile(`\$\w+|>.*|^\s*\(|\)\s*$`).ReplaceAllString(part, "")
			part = regexp.MustCompile(`^\s*(?:[A-Z_]+=\S+\s+)*`).ReplaceAllString(part, "")
			if part = strings.TrimSpace(part); part != "" {
				lines = append(lines, part)
			}
		}
	}
	return lines
}

func parses(t *testing.T, parser *kong.Kong, args []string) (err error) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			require.Equal(t, errHelp, r)
		}
	}()
	_, err = parser.Parse(args)
	return err
}

// TestGuidesLeadSomewhere: what a guide names in this repository is there, and the first one is short.
func TestGuidesLeadSomewhere(t *testing.T) {
	t.Parallel()
	for path, text := range guides(t) {
		for _, link := range regexp.MustCompile("`([A-Za-z0-9_./-]+(?:/|README\\.md|\\.yaml|\\.go))`").FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(link[1], "/") || link[1] == "doc.go" {
				continue
			}
			_, fromRoot := os.Stat(filepath.Join("..", "..", link[1]))
			_, fromFolder := os.Stat(filepath.Join("..", "..", filepath.Dir(path), link[1]))
			require.True(t, fromRoot == nil || fromFolder == nil, "%s: %s", path, link[1])
		}
	}
	require.LessOrEqual(t, strings.Count(guides(t)["README.md"], "\n"), 120, "README.md is for newcomers; guides are in the folders")
}
