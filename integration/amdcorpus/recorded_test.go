package amdcorpus

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// soundsRoot is where the packages of announcements are installed, and musicRoot those of music on hold.
	soundsRoot = "/usr/share/asterisk/sounds"
	musicRoot  = "/usr/share/asterisk/moh"
	// lettersRoot has letters and syllables in twenty languages, read by as many people, children among them.
	lettersRoot = "/usr/share/klettres"
	// fileSeparator stands between the files of an utterance.
	fileSeparator = "|"
)

// melodies is the music of a half, of which some may be missing.
func melodies(h Half) []string {
	names := map[Half][]string{
		Tuning:  {"macroform-cold_day.wav", "macroform-robot_dity.wav", "macroform-the_simplicity.wav"},
		HeldOut: {"manolo_camp-morning_coffee.wav", "reno_project-system.wav"},
	}[h]
	var out []string
	for _, name := range names {
		if path := filepath.Join(musicRoot, name); exists(path) {
			out = append(out, path)
		}
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// prompts makes the texts of one who has recorded announcements: files instead of words. All publishers have the same names of files.
func prompts(dir string) *phrases {
	find := func(name string) string {
		for _, ext := range []string{".wav", ".gsm"} {
			if path := filepath.Join(dir, name+ext); exists(path) {
				return path
			}
		}
		return ""
	}
	all := func(utterances ...string) []string {
		var out []string
		for _, u := range utterances {
			var files []string
			for name := range strings.FieldsSeq(u) {
				files = append(files, find(name))
			}
			if !slices.Contains(files, "") {
				out = append(out, strings.Join(files, fileSeparator))
			}
		}
		return out
	}
	p := &phrases{
		Voicemail: all("vm-theperson digits/4 digits/2 digits/7 vm-isunavail vm-intro", "vm-theperson digits/8 digits/0 digits/3 vm-isonphone vm-intro",
			"vm-nobodyavail vm-intro", "vm-intro", "vm-isunavail vm-intro", "vm-theperson digits/5 digits/1 digits/9 vm-isunavail vm-intro",
			"vm-mailboxfull", "followme/sorry vm-intro"),
		Carrier: all("ss-noservice", "cannot-complete-as-dialed check-number-dial-again", "tt-allbusy", "pbx-invalid", "followme/sorry", "im-sorry vm-nobodyavail",
			"feature-not-avail-line", "simul-call-limit-reached", "invalid", "unidentified-no-callback", "privacy-unident", "queue-youarenext",
			"queue-periodic-announce", "confbridge-lock-extended"),
		Menu: all("basic-pbx-ivr-main", "demo-congrats", "dir-intro", "dir-intro-fn", "vm-opts", "vm-options", "conf-usermenu", "conf-adminmenu", "priv-callee-options",
			"vm-msginstruct", "vm-forwardoptions", "followme/options", "dir-instr", "demo-instruct", "vm-instructions"),
	}
	used := strings.Join(slices.Concat(p.Voicemail, p.Carrier, p.Menu), fileSeparator)
	for _, sub := range []string{"digits", "letters", "phonetic", "."} {
		for _, path := range files(filepath.Join(dir, sub)) {
			switch d := lasts(path); {
			case strings.Contains(used, path):
			case sub != "." && d > 250*time.Millisecond && d < 900*time.Millisecond:
				p.Hello = append(p.Hello, path)
			case sub == "." && d > 800*time.Millisecond && d < 1500*time.Millisecond:
				p.Short = append(p.Short, path)
			case sub == "." && d >= 1500*time.Millisecond && d < 2200*time.Millisecond:
				p.Sentence = append(p.Sentence, path)
			}
		}
	}
	p.VoicemailShort, p.Company, p.Business = p.Voicemail, p.Sentence, p.Sentence
	for _, list := range p.lists() {
		if len(*list) == 0 {
			return nil
		}
	}
	return p
}

// morePrompts are other announcements of a publisher than prompts has, and other words.
func morePrompts(dir string) *phrases {
	known := prompts(dir)
	if known == nil {
		return nil
	}
	used := strings.Join(slices.Concat(known.Voicemail, known.Carrier, known.Menu), fileSeparator)
	p := &phrases{}
	for _, path := range files(dir) {
		d := lasts(path)
		switch {
		case strings.Contains(used, path):
		case d > 800*time.Millisecond && d < 1500*time.Millisecond:
			p.Short = append(p.Short, path)
		case d >= 1500*time.Millisecond && d < 2200*time.Millisecond:
			p.Sentence = append(p.Sentence, path)
		case d >= 2600*time.Millisecond:
			p.Carrier = append(p.Carrier, path)
		}
	}
	p.Hello = known.Hello
	// One says several things in turn, as one hears at mailboxes that put together what they say.
	for i := range p.Carrier {
		first, second := p.Short[i%len(p.Short)], p.Carrier[(7*i+3)%len(p.Carrier)]
		number := known.Hello[(5*i)%len(known.Hello)] + fileSeparator + known.Hello[(11*i+1)%len(known.Hello)] + fileSeparator + known.Hello[(3*i+2)%len(known.Hello)]
		p.Voicemail = append(p.Voicemail, first+fileSeparator+second, first+fileSeparator+number+fileSeparator+second, p.Carrier[i])
		p.Menu = append(p.Menu, p.Carrier[i]+fileSeparator+p.Carrier[(3*i+1)%len(p.Carrier)])
	}
	p.VoicemailShort, p.Company, p.Business = p.Voicemail, p.Sentence, p.Sentence
	return p
}

// files lists the sounds of a folder.
func files(dir string) []string {
	var out []string
	for _, pattern := range []string{"*.wav", "*.gsm", "*.ogg"} {
		some, _ := filepath.Glob(filepath.Join(dir, pattern))
		out = append(out, some...)
	}
	return out
}

// lasts is about how long a recording lasts, by its size: 16 bits at 8 kHz, or GSM.
func lasts(path string) time.Duration {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	if filepath.Ext(path) == ".gsm" {
		return time.Duration(info.Size()/33) * 20 * time.Millisecond
	}
	return time.Duration(info.Size()-44) * time.Second / 16000
}

// spellers are people who say a letter or a syllable.
func spellers() cast {
	c := cast{music: melodies(HeldOut)}
	dirs, _ := filepath.Glob(filepath.Join(lettersRoot, "*"))
	for _, dir := range dirs {
		say := slices.Concat(files(filepath.Join(dir, "alpha")), files(filepath.Join(dir, "syllab")))
		if len(say) > 5 {
			c.speakers = append(c.speakers, speaker{engineRecorded + "/" + filepath.Base(dir), &phrases{Hello: say, Short: say, Sentence: say, Voicemail: say}})
		}
	}
	return c
}
