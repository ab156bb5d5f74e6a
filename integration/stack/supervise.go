package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/ringmaster/ringmaster/store/retry"
)

// StartController starts the controller and waits until it is ready.
func (s *Stack) StartController(ctx context.Context) (err error) {
	stderr := s.cfg.Stderr
	if s.cfg.ControllerLog != nil {
		stderr = io.MultiWriter(stderr, s.cfg.ControllerLog)
	}
	s.controller, err = s.spawn(ctx, "controller", stderr, nil, s.cfg.Controller, "serve", "--config", s.configFile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	if err := s.awaitReady(ctx); err != nil {
		return errors.Join(err, s.controller.end(endLimit))
	}
	return nil
}

// ControllerPID is the controller's process id.
func (s *Stack) ControllerPID() int { return s.controller.pid() }

// SwitchPID is the process id of the switch, simulated or real.
func (s *Stack) SwitchPID() int {
	if s.freeswitch != nil {
		return s.freeswitch.PID()
	}
	return s.switchProc.pid()
}

// CarrierPID is the process id of the simulated carrier, which plays the softphones too.
func (s *Stack) CarrierPID() int { return s.carrier.pid() }

// SwitchPassword opens the switch's event socket, and with it the machine: each start has another.
func (s *Stack) SwitchPassword() string { return s.eslPassword }

// ControllerDone is closed when the controller that runs now has ended.
func (s *Stack) ControllerDone() <-chan struct{} { return s.controller.exited }

// KillController ends the controller as a crash would, and nothing else.
func (s *Stack) KillController() error { return s.controller.kill() }

// StopController ends the controller in order.
func (s *Stack) StopController() error { return s.controller.end(endLimit) }

func (s *Stack) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.controller.exited:
			return fmt.Errorf("%w: the controller ended: %w", ErrProcess, s.controller.err)
		case <-ctx.Done():
			return fmt.Errorf("wait for %s/health/ready: %w", s.Bootstrap.BaseURL, ctx.Err())
		case <-tick.C:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Bootstrap.BaseURL+"/health/ready", http.NoBody)
		if err != nil {
			return fmt.Errorf("ask whether the controller is ready: %w", err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return nil
		}
	}
}

// KillSwitch ends the switch as a crash would.
func (s *Stack) KillSwitch() error {
	if s.freeswitch != nil {
		return s.freeswitch.Kill()
	}
	return s.switchProc.kill()
}

// restartPause keeps a controller that ends at once from spinning.
const restartPause = 500 * time.Millisecond

// Supervise runs until ctx ends. A controller that dies is started again, as a service manager would; the death of any
// other part ends it with an error.
func (s *Stack) Supervise(ctx context.Context) error {
	for {
		var switchDone <-chan struct{}
		if s.freeswitch != nil {
			switchDone = s.freeswitch.Done()
		} else {
			switchDone = s.switchProc.exited
		}
		select {
		case <-ctx.Done():
			return nil
		case <-switchDone:
			return fmt.Errorf("%w: the switch ended", ErrProcess)
		case <-s.carrier.exited:
			return fmt.Errorf("%w: the carrier ended", ErrProcess)
		case <-s.ai.exited:
			return fmt.Errorf("%w: the voice AI ended", ErrProcess)
		case <-s.pg.Done():
			return fmt.Errorf("%w: PostgreSQL ended", ErrProcess)
		case <-s.controller.exited:
		}
		s.cfg.Logger.Warn("controller died, restarting it", "error", s.controller.err)
		if retry.Pause(ctx, restartPause) != nil {
			return nil //nolint:nilerr // ctx has ended, as it does above
		}
		if err := s.StartController(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}
