package amd

import "math"

const (
	// frameLen is the length of a frame in seconds.
	frameLen = 1.0 / 50
	// fineGap is how many frames of silence are allowed within a syllable.
	fineGap = 3
)

// features is the pattern of sound and silence since the onset of sound. Lengths are in seconds, levels in dB.
type features struct {
	// Since is the time since the onset, 0 before it.
	Since float64
	// Bursts counts the stretches of speech, Speech is their length with the short gaps in them.
	Bursts, Speech float64
	// Pause is the silence since the last burst, Gap the longest silence between two.
	Pause, Gap float64
	// Full is the length of all sound, the soft included, and Quiet the silence after its last.
	Full, Quiet float64
	// Longest, First and Last are the lengths of the longest burst, the first and the latest.
	Longest, First, Last float64

	// What follows is worked out only when it is weighed.

	// SoftGap, SoftFirst and SoftLast are Gap, First and Last with the soft sound.
	SoftGap, SoftFirst, SoftLast float64
	// HardGap, HardLongest and HardPause are Gap, Longest and Pause of the loudest sound.
	HardGap, HardLongest, HardPause float64
	// Phrases counts the bursts with the soft sound, LastGap and FirstGap are silences between them; Fine tells the same of bursts that
	// bear hardly any silence.
	Phrases, LastGap, FirstGap                            float64
	FineCount, FineFirst, FineLast, FineGap, FineFirstGap float64
	// Within is how much sound lies no more than 6, 9 and 18 dB below the peak.
	Within [3]float64
	// Ends are the mean levels beside the peak of stretches that end now, the latest first; Starts of those that follow the onset.
	Ends, Starts [5]float64
	// Rate counts the syllables in a second of sound, Beats, Dips and Turns the peaks of the level that stand out less and more, and
	// those of the change of the spectrum's shape. Held is the share of sound whose shape stays, Steps the mean change.
	Rate, Beats, Dips, Turns, Held, Steps float64
	// Vowels counts the stretches with a pitch in a second of sound, Vowel is the mean length of one.
	Vowels, Vowel float64
	// Pace is how fast the spectrum's shape goes on, Jump how fast the level does, both beside how far they go at all.
	Pace, Jump float64
	// Noise is how far the floor lies below the peak, Wander how unsteady it is.
	Noise, Wander float64
	// Fade is how far the last fifth of a second of sound lies from the mean of it all.
	Fade float64
	// Range is how far the pitch wanders, in octaves, and Slope how fast it goes up, in octaves a second. Rise, Lift and Begin are how
	// far it lies above its middle at the end, before the first pause and at the beginning. Voiced is the share of sound that has one.
	Range, Slope, Rise, Lift, Begin, Voiced float64
	// Told is the least probability of a machine, by the tones heard so far.
	Told float64
}

const (
	// InputCount is how many inputs the model has.
	InputCount = 64
	// InputSince is the one that is the time since the onset.
	InputSince = 48
)

// vector is the model's input.
func (f *features) vector() [InputCount]float64 {
	return [...]float64{
		f.Speech, f.Pause, f.Quiet, f.Gap, f.Full, f.Longest, f.SoftGap, f.SoftLast, f.Within[0], f.Within[1], f.Within[2],
		f.Ends[0], f.Ends[1], f.Ends[2], f.Ends[3], f.Ends[4], f.Rate, f.Pace, f.Jump,
		// How far some go beyond what is found within a sentence.
		max(0, f.Quiet-0.3), max(0, f.Gap-0.35), max(0, f.Pause-0.4), max(0, f.Speech-1.8),
		f.First, f.Last, f.SoftFirst, f.HardGap, f.HardLongest, f.HardPause,
		f.Starts[0], f.Starts[1], f.Starts[2], f.Starts[3], f.Starts[4], f.Noise, f.Wander, f.Fade,
		f.Range, f.Slope, f.Rise, f.Lift, f.Begin, f.Voiced,
		f.Bursts, f.Speech / max(1, f.Bursts), f.Full / max(f.Since, 0.1), f.Quiet + f.SoftGap, f.Rate * f.Full,
		f.Since, f.Phrases, f.LastGap, f.FirstGap, f.FineCount, f.FineFirst, f.FineLast, f.FineGap, f.FineFirstGap,
		f.Beats, f.Dips, f.Turns, f.Held, f.Steps, f.Vowels, f.Vowel,
	}
}

// complete works out the features that are only wanted for the verdict.
func (p *pattern) complete() {
	if p.f.Bursts == 0 {
		return
	}
	p.profile()
	p.tempo()
	p.ground()
	p.melody()
}

// profile follows the level through time.
func (p *pattern) profile() {
	f, n := &p.f, min(p.frames, memory)
	f.Within = [3]float64{}
	soft, hard, fine := bursts{maxGap: burstGap}, bursts{maxGap: burstGap}, bursts{maxGap: fineGap}
	for k := p.onset; k < n; k++ {
		v := p.at(n, k)
		for i, db := range [...]float32{6, 9, 18} {
			if v > p.peak-db {
				f.Within[i] += frameLen
			}
		}
		if v > p.peak-9 {
			hard.sound(k)
		}
		if v > p.soft {
			soft.sound(k)
			fine.sound(k)
		}
	}
	hard.close()
	soft.close()
	fine.close()
	f.Phrases, f.LastGap, f.FirstGap = float64(soft.count), frameLen*float64(soft.lastGap), frameLen*float64(soft.firstGap)
	f.FineCount, f.FineFirst, f.FineLast = float64(fine.count), frameLen*float64(fine.first), frameLen*float64(fine.latest)
	f.FineGap, f.FineFirstGap = frameLen*float64(fine.lastGap), frameLen*float64(fine.firstGap)
	f.SoftGap, f.SoftFirst, f.SoftLast = frameLen*float64(soft.gap), frameLen*float64(soft.first), frameLen*float64(soft.latest)
	f.HardGap, f.HardLongest = frameLen*float64(hard.gap), frameLen*float64(hard.longest)
	f.HardPause = frameLen * float64(n-1-hard.last)
	to := n
	for i, from := range [...]int{n - 8, n - 16, n - 26, n - 40, n - 60} {
		f.Ends[i] = p.mean(n, from, to)
		to = from
	}
	from := p.onset
	for i, length := range [...]int{15, 15, 15, 20, 25} {
		f.Starts[i] = p.mean(n, from, from+length)
		from += length
	}
}

// mean is the mean level beside the peak of a stretch since the onset.
func (p *pattern) mean(n, from, to int) float64 {
	const lowest, none = -30, -40
	from, to = max(from, p.onset), min(to, n)
	if from >= to {
		return none
	}
	sum := 0.0
	for k := from; k < to; k++ {
		sum += max(lowest, float64(p.at(n, k)-p.peak))
	}
	return sum / float64(to-from)
}

// tempo tells how fast somebody speaks, and how the last of it fades.
func (p *pattern) tempo() {
	f, n := &p.f, min(p.frames, memory)
	var levels, squares, jumps, change, drift, count float64
	for k := p.onset; k <= p.last; k++ {
		v := float64(p.at(n, k))
		if p.at(n, k) <= p.soft {
			continue
		}
		i := (p.frames - n + k) % memory
		count++
		levels += v
		squares += v * v
		change += float64(p.change[i])
		drift += float64(p.drift[i])
		if k > 0 {
			jumps += math.Abs(v - float64(p.at(n, k-1)))
		}
	}
	if count == 0 {
		return
	}
	mean := levels / count
	f.Rate = float64(p.syllables(n, swing)) / (count * frameLen)
	f.Beats = float64(p.syllables(n, swing/2)) / (count * frameLen)
	f.Dips = float64(p.syllables(n, 2*swing)) / (count * frameLen)
	p.turns(n, count)
	f.Pace = change / max(drift, 1e-6)
	f.Jump = jumps / count / (1 + math.Sqrt(max(0, squares/count-mean*mean)))
	late, some := 0.0, 0
	for k := p.last; k >= p.onset && some < 10; k-- {
		if v := p.at(n, k); v > p.soft {
			late += float64(v) - mean
			some++
		}
	}
	f.Fade = late / float64(some)
}

// swing is how far the level falls after a syllable and rises to the next, in dB.
const swing = 4.0

// turns follows the changes of the spectrum's shape and the voice.
func (p *pattern) turns(n int, sounding float64) {
	const stays = 0.01
	f := &p.f
	var peaks, held, steps, voiced, runs float64
	on := false
	for k := max(1, p.onset); k <= min(p.last, n-2); k++ {
		if p.at(n, k) <= p.soft {
			on = false
			continue
		}
		i := p.frames - n + k + memory
		v := p.step[i%memory]
		steps += float64(v)
		if v < stays {
			held++
		} else if v >= p.step[(i-1)%memory] && v > p.step[(i+1)%memory] {
			peaks++
		}
		if (p.frames-n+k)%2 == 0 {
			continue
		}
		now := p.pitch[i%memory] > 0
		if now {
			voiced++
			if !on {
				runs++
			}
		}
		on = now
	}
	f.Turns, f.Held, f.Steps = peaks/(sounding*frameLen), held/sounding, steps/sounding
	f.Vowels, f.Vowel = runs/(sounding*frameLen), 2*frameLen*voiced/max(1, runs)
}

// syllables counts the peaks of the level.
func (p *pattern) syllables(n int, swing float32) int {
	count, rising := 0, true
	high, low := p.soft, p.soft
	for k := max(1, p.onset); k <= min(p.last, n-2); k++ {
		v := (p.at(n, k-1) + 2*p.at(n, k) + p.at(n, k+1)) / 4
		if rising {
			high = max(high, v)
			if v < high-swing {
				count++
				rising, low = false, v
			}
			continue
		}
		low = min(low, v)
		if v > low+swing && v > p.soft {
			rising, high = true, v
		}
	}
	if rising && high > p.soft {
		count++
	}
	return count
}

// ground measures the noise that the speech stands on.
func (p *pattern) ground() {
	const digital = -95 // nothing but zeros
	f, n := &p.f, min(p.frames, memory)
	f.Noise = float64(p.peak - p.floor)
	wander, count := 0.0, 0
	for k := range n {
		if v := p.at(n, k); v <= p.soft && p.floor > digital {
			wander += math.Abs(float64(v - p.floor))
			count++
		}
	}
	f.Wander = wander / float64(max(1, count))
}
