package encoder

// Shapes of the model: the convolutions' kernels, their steps and their channels, and the transformer's.
const (
	kernel1, step1 = 127, 64
	kernel2, step2 = 7, 3
	kernel3, step3 = 3, 2
	channels2      = 576
	heads          = 8
	headWidth      = Width / heads
	rotated        = 32 // of a head's values, how many turn with the position
	inner          = 1152
)

// Width is how many values a frame has.
const Width = 288

// MaxSamples is how many samples of 8 kHz an encoder takes: 3.1 s.
const MaxSamples = 24800

// MaxFrames is how many frames it makes of them.
const MaxFrames = (((2*MaxSamples-kernel1)/step1+1-kernel2)/step2+1-kernel3)/step3 + 1

// Encoder turns speech into frames. It isn't safe for concurrent use; several share the weights and may run at once.
type Encoder struct {
	kernels
	weights *model
	between matrix
	turns   [MaxFrames][rotated / 2]turn

	narrow, odd []float32 // samples of 8 kHz, and those between them
	wide        []float32 // samples of 16 kHz
	conv1       []float32 // what the first convolution gives, Width values a step
	conv2       []float32 // channels2 values a step
	state       []float32 // what the layers add to, Width values a frame
	normed      []float32 // Width values a frame
	qkv         []float32 // queries, keys and values of all heads, side by side
	inner       []float32 // inner values a frame

	// Of a head:
	keys   matrix // transposed
	values matrix
	scores []float32          // scoreWidth values a frame
	sums   [MaxFrames]float32 // of a frame's scores
	mixed  []float32          // mixedWidth values a frame
}

// New makes an encoder, of 4 MB. The first one unpacks the weights, which takes 10 ms.
func New() *Encoder { return newEncoder(fastest()) }

func newEncoder(k kernels) *Encoder {
	e := &Encoder{kernels: k, weights: shared(), between: interpolator(), turns: turns()}
	// A product reads and writes rows up to a multiple of maxTileRows.
	rows3 := roundUp(MaxFrames, maxTileRows)
	rows2 := roundUp((rows3-1)*step3+kernel3, maxTileRows)
	rows1 := roundUp((rows2-1)*step2+kernel2, maxTileRows)
	phrases := roundUp((MaxSamples+phrase-1)/phrase, maxTileRows)

	e.narrow = make([]float32, (phrases-1)*phrase+e.between.k)
	e.odd = make([]float32, phrases*phrase)
	e.wide = make([]float32, (rows1-1)*step1+kernel1)
	e.conv1 = make([]float32, rows1*Width)
	e.conv2 = make([]float32, rows2*channels2)
	e.state = make([]float32, rows3*Width)
	e.normed = make([]float32, rows3*Width)
	e.qkv = make([]float32, rows3*3*Width)
	e.scores = make([]float32, rows3*scoreWidth)
	e.keys = newMatrix(headWidth, scoreWidth)
	e.values = newMatrix(MaxFrames, mixedWidth)
	e.mixed = make([]float32, rows3*mixedWidth)
	e.inner = make([]float32, rows3*inner)
	return e
}

// Frames is how many frames Encode makes of samples of 8 kHz.
func Frames(samples int) int {
	n := 2 * min(samples, MaxSamples)
	n = after(n, kernel1, step1)
	n = after(n, kernel2, step2)
	return after(n, kernel3, step3)
}

// after is how many outputs a convolution has.
func after(n, kernel, step int) int {
	if n < kernel {
		return 0
	}
	return (n-kernel)/step + 1
}

// Encode returns the frames of pcm, mono at 8 kHz: Frames(len(pcm)) times Width values, a frame each 24 ms. They are the encoder's, and are valid until its
// next Encode. The loudness doesn't matter, since all is scaled to the same RMS. Samples after MaxSamples are left out.
func (e *Encoder) Encode(pcm []int16) []float32 {
	pcm = pcm[:min(len(pcm), MaxSamples)]
	t := Frames(len(pcm))
	if t == 0 {
		return nil
	}
	e.double(pcm)
	e.convolve(2*len(pcm), t)
	for i := range e.weights.layers {
		e.layer(&e.weights.layers[i], t)
	}
	out := e.normed[:t*Width]
	layerNorm(out, e.state, e.weights.norm)
	return out
}
