package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help shows how it is used.
func (completionCmd) Help() string {
	return "Have your shell's start file run it, so that a new version's commands are known at once.\n\nExample:\n\n" +
		"  source <(ringmaster completion bash)\n  source <(ringmaster completion zsh)\n  ringmaster completion fish | source"
}

// Run prints what the shell runs.
func (cmd completionCmd) Run(e env) error {
	_, err := fmt.Fprint(e.stdout, map[string]string{
		"bash": `_ringmaster() {
	local IFS=$'\n'
	COMPREPLY=($(ringmaster complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _ringmaster ringmaster
`,
		"zsh": `_ringmaster() {
	local -a found
	found=("${(@f)$(ringmaster complete --described=: -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	[[ -n "$found" ]] && _describe ringmaster found || _files
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _ringmaster ringmaster
`,
		"fish": `complete -c ringmaster -a '(ringmaster complete --described=\t -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
	}[cmd.Shell])
	return err
}

// completeCmd is asked by the shell for each key.
type completeCmd struct {
	Described string   `help:"Put help behind each, after this."`
	Words     []string `arg:"" optional:"" help:"The words after ringmaster, the last as far as it is typed."`
}

// Run prints what the last word may become, one a line.
func (cmd completeCmd) Run(ctx context.Context, e env) error {
	parser, err := newParser(ctx, e)
	if err != nil {
		return err
	}
	for _, c := range candidates(parser.Model.Node, cmd.Words) {
		line := c.word
		if cmd.Described != "" {
			help, _, _ := strings.Cut(c.help, ". ")
			line += strings.ReplaceAll(cmd.Described, `\t`, "\t") + strings.ReplaceAll(help, "\n", " ")
		}
		if _, err := fmt.Fprintln(e.stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// candidate is what a word may become.
type candidate struct{ word, help string }

// candidates are what the last word may become: commands, flags, or the values of the flag or argument that it is for. None leaves it to the
// shell, which knows files.
func candidates(at *kong.Node, words []string) (found []candidate) {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	var waiting *kong.Flag // for its value
	arguments := 0
	for _, word := range words[:len(words)-1] {
		child := childOf(at, word)
		switch {
		case waiting != nil:
			waiting = nil
		case strings.HasPrefix(word, "-"):
			waiting = flagOf(at, word)
		case child != nil:
			at = child
		case len(at.Positional) == 0:
			return nil
		default:
			arguments++
		}
	}
	add := func(word, help string) {
		if strings.HasPrefix(word, last) && word != "" {
			found = append(found, candidate{word, help})
		}
	}
	switch {
	case waiting != nil:
		for _, value := range waiting.EnumSlice() {
			add(value, waiting.Help)
		}
	case strings.HasPrefix(last, "-"):
		for _, group := range at.AllFlags(true) {
			for _, flag := range group {
				add("--"+flag.Name, flag.Help)
			}
		}
	default:
		for _, child := range at.Children {
			if !child.Hidden {
				add(child.Name, child.Help)
			}
		}
		if arguments < len(at.Positional) {
			for _, value := range at.Positional[arguments].EnumSlice() {
				add(value, at.Positional[arguments].Help)
			}
		}
	}
	return found
}

func childOf(at *kong.Node, word string) *kong.Node {
	i := slices.IndexFunc(at.Children, func(child *kong.Node) bool { return child.Name == word })
	if i < 0 {
		return nil
	}
	return at.Children[i]
}

// flagOf is the flag that a word is, if its value is the next word.
func flagOf(at *kong.Node, word string) *kong.Flag {
	for _, group := range at.AllFlags(false) {
		for _, flag := range group {
			if (word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short)) && !flag.IsBool() {
				return flag
			}
		}
	}
	return nil
}
