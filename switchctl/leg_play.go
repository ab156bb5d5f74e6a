package switchctl

import "context"

func (l *leg) Play(context.Context, string) error { return ErrAudio }

func (l *leg) Gather(context.Context, Gather) (string, error) { return "", ErrAudio }

func (l *leg) RecordVoicemail(context.Context, Voicemail) error { return ErrAudio }

func (l *leg) Transfer(context.Context, string, string) (Outcome, error) { return OutcomeFailed, nil }
