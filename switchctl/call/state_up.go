package call

import (
	"context"

	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// up: the caller is on the line. stateAnswered is before anybody else was heard, stateAgentConnected from then on; both take the same.
func (a *actor) up(ctx context.Context, m message) (state, error) {
	switch m := m.(type) {
	case channelEvent:
		return a.answeredEvent(ctx, m)
	case jobDone:
		return a.jobReply(ctx, m)
	case socketUp:
		return a.line.socketAttached(ctx, m)
	case socketDown:
		return a.line.socketLost(m)
	case channelFound:
		return a.line.channelLives(ctx, m)
	case channelGone:
		return a.line.channelVanished(ctx, m)
	case timerFired:
		return a.answeredTimer(ctx, m)
	case hangupCommand:
		return a.ending.hangupLeg(ctx, m)
	case answerCommand:
		m.reply <- nil
		return a.state, nil
	case connectCommand:
		return a.voice.connect(ctx, m)
	case agentCommand:
		return a.agents.connectAgent(ctx, m)
	case agentLeg, agentWaits, agentGone, bridgeUnconfirmed, agentCancel, whisperReady:
		return a.agents.agentMessage(ctx, m)
	case noteCommand:
		return a.state, a.noteAgent(ctx, m)
	case recordCommand:
		return a.rec.recordFlow(ctx, m)
	case musicCommand:
		return a.music.setMusic(ctx, m)
	case clipFetched:
		a.sound.fetched(ctx, m)
	case musicFetched:
		a.music.musicThere(ctx, m)
	case afterwards:
		a.proceed(ctx, m)
	case takeCommand:
		return a.state, a.takeaway.take(ctx, m)
	case takeNoted:
		return a.takeaway.noted(ctx, m)
	case queueAllowed:
		return a.transfers.queueAnswered(ctx, m)
	case memberAdmitted:
		return a.state, a.conference.guests.memberAllowed(ctx, m)
	case memberReply:
		a.conference.guests.memberReplied(ctx, m)
	case memberPhoneFound:
		return a.state, a.conference.guests.phoneFound(ctx, m)
	case memberLeg:
		a.conference.guests.phoneLeg(ctx, m)
	case memberSettled:
		a.conference.guests.phoneSettled(ctx, m)
	case tapCommand, tapStop, tapMetadata, tapOpened, tapReport, tapRefused, tapHear, tapTuned, tapSay:
		return a.taps.tapping(ctx, m)
	case superviseCommand, superviseBegan, superviseWhisper, superviseMode, superviseLeft, superviseLost:
		return a.supervised.message(ctx, m)
	case monitorUp:
		a.monitors.monitorIsUp(ctx, m)
	case monitorMode:
		a.monitors.monitorModeChanged(ctx, m)
	case monitorWhispered:
		a.monitors.hasWhispered(ctx, m)
	case monitorFellBack:
		a.monitors.fellBack(ctx, m)
	case monitorOver:
		a.monitors.monitorIsOver(ctx, m)
	case talkCommand, talkDropped, talkSent, talkRecording, socketEvent:
		return a.talking.talk(ctx, m)
	case machineCommand:
		return a.state, a.machine.onMachine(ctx, m)
	case transferCommand:
		return a.state, a.transfers.handlerTransfer(ctx, m)
	case sessionGranted:
		return a.voice.granted(ctx, m)
	case sipTarget:
		return a.voice.sipFound(ctx, m)
	case legFound:
		return a.refers.looked(ctx, m)
	case referAnswered:
		return a.refers.replied(ctx, m)
	case referLeft:
		a.refers.leftBefore(ctx, m)
	case sessionOpened:
		return a.voice.opened(ctx, m)
	case mediaEvent:
		return a.voice.mediaReport(ctx, m)
	case bridgeFailed:
		return a.voice.bridgeRefused()
	case bypassTried:
		return a.bypass.bypassAnswered(ctx, m)
	case tokenMinted:
		return a.voice.tokenReady(ctx, m)
	case announceFetched:
		a.transfers.announceCame(ctx, m)
	case transferAdmitted:
		return a.transfers.transferAllowed(ctx, m)
	case secondLeg:
		if a.conference.guests.memberFound(ctx, m) {
			return a.state, nil
		}
		return a.transfers.secondFound(ctx, m)
	case routeChosen:
		if a.conference.guests.memberRoute(ctx, m) {
			return a.state, nil
		}
		return a.transfers.transferRouteFound(ctx, m)
	case controlCommand:
		a.verbs.control(ctx, m)
		return a.state, nil
	case handlerDone:
		return a.handling.handlerReturned(ctx, m)
	case secondStarted:
		a.rec.secondBegun(ctx, m)
	case partFinished:
		return a.rec.partReady(ctx, m)
	case detach:
		return a.release(ctx)
	default:
		return a.state, a.notTaken(m)
	}
	return a.state, nil
}

// answeredEvent is an event of the caller's channel, of the media leg, or of a transfer's second leg.
func (a *actor) answeredEvent(ctx context.Context, m channelEvent) (state, error) {
	switch m.role {
	case phone.Role:
		return a.agents.agentBridged(ctx, m.ev), nil
	case roleMedia:
		return a.voice.mediaLegEvent(ctx, m)
	case roleMember:
		a.conference.guests.memberEvent(ctx, m)
		return a.state, nil
	case roleTransfer:
		return a.transfers.transferEvent(ctx, m)
	case roleConference:
		a.conference.event(ctx, m.ev)
		return a.state, nil
	}
	if a.dial.isSpent(m.ev) {
		return a.state, nil
	}
	a.keypad.noteKeys(m.ev)
	switch m.ev.Name() {
	case fs.ChannelHangupComplete:
		a.bypass.bypassCallEnded(ctx, m.ev)
		return a.dial.ended(ctx, m.ev), nil
	case fs.ChannelDestroy:
		a.probe(ctx) // its end was missed
	case fs.ChannelBridge:
		a.bypass.mediaBridged(ctx, m.ev)
		if a.agents.human != nil {
			return a.agents.agentBridged(ctx, m.ev), nil
		}
		return a.transfers.bridged(ctx, m.ev)
	case fs.RecordStart:
		a.rec.begins(ctx, m.ev)
	case fs.RecvInfo:
		a.keypad.callerInfo(m.ev)
		a.talking.infoDigit(ctx, m.ev)
	case fs.ChannelCreate, fs.ChannelProgress, fs.ChannelProgressMedia, fs.ChannelAnswer:
		// Late, or told twice.
	default:
		return a.state, a.notTaken(m)
	}
	return a.state, nil
}

func (a *actor) answeredTimer(ctx context.Context, m timerFired) (state, error) {
	if !a.timers.Due(m.timer, m.serial) {
		return a.state, nil
	}
	switch m.timer {
	case timerSocket:
		a.line.socketDue(ctx)
	case timerKill:
		a.ending.killAgain(ctx)
	case timerLeg:
		return a.voice.legDue(ctx)
	case timerRefresh:
		a.voice.refreshToken(ctx)
	case timerSession:
		return a.voice.sessionExpired(ctx), nil
	case timerTransfer:
		return a.transfers.transferDue(ctx)
	case timerBypass:
		a.bypass.bypassDue(ctx)
	case timerConference:
		a.conference.conferenceDue(ctx)
	case timerTap:
		a.taps.tapsDue(ctx)
	case timerAgent:
		a.agents.agentDue(ctx)
	case timerTalk:
		a.talking.talkDue(ctx)
	case timerMachine:
		a.machine.machineOver(ctx)
	case timerOpening:
		a.voice.openingDue(ctx)
	case timerVerbs:
		a.verbs.runVerbs(ctx)
	case timerQuiet:
		a.music.quietDue(ctx)
	case timerVerdict:
		a.machine.decideAnswer(ctx, decidedTimeout)
	case timerOriginate, timerRefused, timerReroute:
		// Set before the answer that overtook them.
	}
	return a.state, nil
}
