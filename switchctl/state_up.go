package switchctl

import "context"

// up: the caller is on the line. stateAnswered is before anybody else was heard, stateAgentConnected from then on; both take the same.
func (a *actor) up(ctx context.Context, m message) (state, error) {
	switch m := m.(type) {
	case channelEvent:
		return a.answeredEvent(ctx, m)
	case jobDone:
		return a.jobReply(ctx, m)
	case socketUp:
		return a.socketAttached(ctx, m)
	case socketDown:
		return a.socketLost(m)
	case channelFound:
		return a.channelLives(ctx, m)
	case channelGone:
		return a.channelVanished(ctx, m)
	case timerFired:
		return a.answeredTimer(ctx, m)
	case hangupCommand:
		return a.hangupLeg(ctx, m)
	case answerCommand:
		m.reply <- nil
		return a.state, nil
	case connectCommand:
		return a.connect(ctx, m)
	case agentCommand:
		return a.connectAgent(ctx, m)
	case agentLeg, agentWaits, agentGone, agentDoubt, musicEnded, musicFetched, agentCancel, whisperReady:
		return a.agentMessage(ctx, m)
	case recordCommand:
		return a.recordFlow(ctx, m)
	case musicCommand:
		return a.setMusic(ctx, m)
	case queueAllowed:
		return a.queueAnswered(ctx, m)
	case tapMessage:
		return a.tapping(ctx, m)
	case talkMessage:
		return a.talk(ctx, m)
	case sessionGranted:
		return a.granted(ctx, m)
	case sessionOpened:
		return a.opened(ctx, m)
	case mediaEvent:
		return a.mediaReport(ctx, m)
	case bridgeFailed:
		return a.bridgeRefused()
	case bypassTried:
		return a.bypassAnswered(ctx, m)
	case tokenMinted:
		return a.tokenReady(ctx, m)
	case transferAdmitted:
		return a.transferAllowed(ctx, m)
	case routeChosen:
		return a.transferRouteFound(ctx, m)
	case controlCommand:
		return a.control(ctx, m)
	case handlerDone:
		return a.handlerReturned(ctx, m)
	case secondStarted:
		a.secondBegun(ctx, m)
		return a.state, nil
	case partFinished:
		return a.partReady(ctx, m)
	case letGo:
		return a.release(ctx)
	}
	return a.state, a.notTaken(m)
}

// answeredEvent is an event of the caller's channel, of the media leg, or of a transfer's second leg.
func (a *actor) answeredEvent(ctx context.Context, m channelEvent) (state, error) {
	switch m.role {
	case roleAgent:
		return a.agentBridged(ctx, m.ev), nil
	case roleMedia:
		return a.mediaLegEvent(ctx, m)
	case roleTransfer:
		return a.transferEvent(ctx, m)
	}
	if a.dial.isSpent(m.ev) {
		return a.state, nil
	}
	a.noteKeys(m.ev)
	switch m.ev.Name() {
	case evHangupComplete:
		a.bypassCallEnded(ctx, m.ev)
		return a.ended(ctx, m.ev), nil
	case evDestroy:
		a.probe(ctx) // its end was missed
	case evBridge:
		a.mediaBridged(ctx, m.ev)
		if a.human != nil {
			return a.agentBridged(ctx, m.ev), nil
		}
		return a.bridged(ctx, m.ev)
	case evInfo:
		a.callerInfo(m.ev)
		a.infoDigit(ctx, m.ev)
	case evCreate, evProgress, evProgressMedia, evAnswer:
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
		a.socketDue(ctx)
	case timerKill:
		a.killAgain(ctx)
	case timerLeg:
		return a.legDue(ctx)
	case timerRefresh:
		a.refreshToken(ctx)
	case timerSession:
		return a.sessionExpired(ctx), nil
	case timerTransfer:
		return a.transferDue(ctx)
	case timerBypass:
		a.bypassDue(ctx)
	case timerTap:
		a.tapsDue(ctx)
	case timerAgent:
		a.agentDue(ctx)
	case timerTalk:
		a.talkDue(ctx)
	case timerMachine:
		a.machineOver(ctx)
	case timerOpening:
		a.openingDue(ctx)
	case timerVerbs:
		a.verbsDue()
	case timerQuiet:
		a.quietDue(ctx)
	case timerVerdict:
		a.decideAnswer(ctx, decidedTimeout)
	case timerOriginate, timerRefused, timerReroute:
		// Set before the answer that overtook them.
	}
	return a.state, nil
}
