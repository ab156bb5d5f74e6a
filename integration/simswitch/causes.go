package simswitch

import (
	"slices"
	"strings"
)

// cause is a hang-up cause by FreeSWITCH's name.
type cause string

// The causes that the switch gives by itself.
const (
	causeNone             cause = ""
	causeNormalClearing   cause = "NORMAL_CLEARING"
	causeUserBusy         cause = "USER_BUSY"
	causeNotRegistered    cause = "USER_NOT_REGISTERED"
	causeNoAnswer         cause = "NO_ANSWER"
	causeNoUserResponse   cause = "NO_USER_RESPONSE"
	causeRejected         cause = "CALL_REJECTED"
	causeUnallocated      cause = "UNALLOCATED_NUMBER"
	causeInvalidFormat    cause = "INVALID_NUMBER_FORMAT"
	causeTemporaryFailure cause = "NORMAL_TEMPORARY_FAILURE"
	causeTimerExpire      cause = "RECOVERY_ON_TIMER_EXPIRE"
	causeCancel           cause = "ORIGINATOR_CANCEL"
	causeIncompatible     cause = "INCOMPATIBLE_DESTINATION"
	causeAllottedTimeout  cause = "ALLOTTED_TIMEOUT"
	causeProgressTimeout  cause = "PROGRESS_TIMEOUT"
	causeMediaTimeout     cause = "MEDIA_TIMEOUT"
	causeOutOfOrder       cause = "DESTINATION_OUT_OF_ORDER"
	causeInvalidGateway   cause = "INVALID_GATEWAY"
	causeInvalidProfile   cause = "INVALID_PROFILE"
	causeManagerRequest   cause = "MANAGER_REQUEST"
	causeSystemShutdown   cause = "SYSTEM_SHUTDOWN"
	causeNoRoute          cause = "NO_ROUTE_DESTINATION"
	causeLoseRace         cause = "LOSE_RACE"
	causeRedirected       cause = "REQUESTED_CHAN_UNAVAIL"
)

// q850 has the causes of the switch with their Q.850 codes, which are above 127 where Q.850 has none.
//
//nolint:gochecknoglobals // a constant table, which Go can only spell as a variable
var q850 = map[cause]int{
	"UNSPECIFIED": 0, causeUnallocated: 1, "NO_ROUTE_TRANSIT_NET": 2, causeNoRoute: 3, "CHANNEL_UNACCEPTABLE": 6,
	"CALL_AWARDED_DELIVERED": 7, causeNormalClearing: 16, causeUserBusy: 17, causeNoUserResponse: 18, causeNoAnswer: 19,
	"SUBSCRIBER_ABSENT": 20, causeRejected: 21, "NUMBER_CHANGED": 22, "REDIRECTION_TO_NEW_DESTINATION": 23,
	"EXCHANGE_ROUTING_ERROR": 25, causeOutOfOrder: 27, causeInvalidFormat: 28, "FACILITY_REJECTED": 29,
	"RESPONSE_TO_STATUS_ENQUIRY": 30, "NORMAL_UNSPECIFIED": 31, "NORMAL_CIRCUIT_CONGESTION": 34,
	"NETWORK_OUT_OF_ORDER": 38, causeTemporaryFailure: 41, "SWITCH_CONGESTION": 42, "ACCESS_INFO_DISCARDED": 43,
	causeRedirected: 44, "PRE_EMPTED": 45, "FACILITY_NOT_SUBSCRIBED": 50, "OUTGOING_CALL_BARRED": 52,
	"INCOMING_CALL_BARRED": 54, "BEARERCAPABILITY_NOTAUTH": 57, "BEARERCAPABILITY_NOTAVAIL": 58,
	"SERVICE_UNAVAILABLE": 63, "BEARERCAPABILITY_NOTIMPL": 65, "CHAN_NOT_IMPLEMENTED": 66,
	"FACILITY_NOT_IMPLEMENTED": 69, "SERVICE_NOT_IMPLEMENTED": 79, "INVALID_CALL_REFERENCE": 81, causeIncompatible: 88,
	"INVALID_MSG_UNSPECIFIED": 95, "MANDATORY_IE_MISSING": 96, "MESSAGE_TYPE_NONEXIST": 97, "WRONG_MESSAGE": 98,
	"IE_NONEXIST": 99, "INVALID_IE_CONTENTS": 100, "WRONG_CALL_STATE": 101, causeTimerExpire: 102,
	"MANDATORY_IE_LENGTH_ERROR": 103, "PROTOCOL_ERROR": 111, "INTERWORKING": 127, causeCancel: 487, "CRASH": 500,
	causeSystemShutdown: 501, causeLoseRace: 502, causeManagerRequest: 503, "BLIND_TRANSFER": 600,
	"ATTENDED_TRANSFER": 601, causeAllottedTimeout: 602, "USER_CHALLENGE": 603, causeMediaTimeout: 604,
	"PICKED_OFF": 605, causeNotRegistered: 606, causeProgressTimeout: 607, causeInvalidGateway: 608,
	"GATEWAY_DOWN": 609, "INVALID_URL": 610, causeInvalidProfile: 611, "NO_PICKUP": 612, "BOWOUT": 614,
	"BUSY_EVERYWHERE": 615, "DECLINE": 616, "DOES_NOT_EXIST_ANYWHERE": 617, "NOT_ACCEPTABLE": 618, "UNWANTED": 619,
}

// parseCause returns the cause of that name; an unknown name is NORMAL_CLEARING, as in FreeSWITCH.
func parseCause(name string) cause {
	c := cause(strings.ToUpper(strings.TrimSpace(name)))
	if _, ok := q850[c]; ok {
		return c
	}
	return causeNormalClearing
}

// q850Of is what variable_hangup_cause_q850 shows: causes of the switch's own count as 16.
func q850Of(c cause) int {
	if code, ok := q850[c]; ok && code <= 127 {
		return code
	}
	return 16
}

// causeOfStatus maps a SIP refusal to a cause, as mod_sofia does (RFC 3398 with FreeSWITCH's deviations).
func causeOfStatus(status int) cause {
	for c, statuses := range map[cause][]int{
		causeNormalClearing:       {200},
		causeRedirected:           {300, 301, 302, 305},
		causeRejected:             {401, 402, 403, 407, 603, 608},
		causeUnallocated:          {404},
		causeNoRoute:              {485, 604},
		"UNWANTED":                {607},
		causeTimerExpire:          {408, 504},
		"NUMBER_CHANGED":          {410},
		"INTERWORKING":            {413, 414, 416, 420, 421, 423, 505, 513},
		causeNoUserResponse:       {480},
		causeTemporaryFailure:     {400, 481, 500, 503},
		causeUserBusy:             {486, 600},
		causeInvalidFormat:        {484},
		causeIncompatible:         {488, 606},
		"NETWORK_OUT_OF_ORDER":    {502},
		"SERVICE_UNAVAILABLE":     {405},
		"SERVICE_NOT_IMPLEMENTED": {406, 415, 501},
		"EXCHANGE_ROUTING_ERROR":  {482, 483},
		causeCancel:               {487},
	} {
		if slices.Contains(statuses, status) {
			return c
		}
	}
	return "NORMAL_UNSPECIFIED"
}

// statusOfCause is how a leg that came in is refused, as mod_sofia does: 480 for what has no status of its own.
func statusOfCause(c cause) int {
	byStatus := map[int][]cause{
		404: {causeUnallocated, causeNoRoute, "NO_ROUTE_TRANSIT_NET"},
		486: {causeUserBusy},
		408: {causeNoUserResponse},
		603: {causeRejected, "DECLINE", "REJECT_ALL"},
		410: {"NUMBER_CHANGED", "REDIRECTION_TO_NEW_DESTINATION"},
		502: {causeOutOfOrder, causeInvalidProfile},
		484: {causeInvalidFormat, causeInvalidGateway, "INVALID_URL"},
		501: {"FACILITY_REJECTED", "FACILITY_NOT_IMPLEMENTED", "SERVICE_NOT_IMPLEMENTED"},
		503: {
			"REQUESTED_CHAN_UNAVAIL", "NORMAL_CIRCUIT_CONGESTION", "NETWORK_OUT_OF_ORDER", causeTemporaryFailure,
			"SWITCH_CONGESTION", "GATEWAY_DOWN", "BEARERCAPABILITY_NOTAVAIL",
		},
		403: {"OUTGOING_CALL_BARRED", "INCOMING_CALL_BARRED", "BEARERCAPABILITY_NOTAUTH"},
		488: {"BEARERCAPABILITY_NOTIMPL", causeIncompatible},
		504: {causeTimerExpire},
		487: {causeCancel},
		483: {"EXCHANGE_ROUTING_ERROR"},
		600: {"BUSY_EVERYWHERE"},
		604: {"DOES_NOT_EXIST_ANYWHERE"},
		606: {"NOT_ACCEPTABLE"},
		607: {"UNWANTED"},
	}
	for status, causes := range byStatus {
		if slices.Contains(causes, c) {
			return status
		}
	}
	return 480
}

// reasonPhrase is the text of a SIP status that the switch sends.
func reasonPhrase(status int) string {
	phrases := map[int]string{
		100: "Trying", 180: "Ringing", 183: "Session Progress", 200: "OK", 400: "Bad Request", 403: "Forbidden",
		404: "Not Found", 408: "Request Timeout", 410: "Gone", 480: "Temporarily Unavailable",
		481: "Call/Transaction Does Not Exist", 483: "Too Many Hops", 484: "Address Incomplete", 486: "Busy Here",
		487: "Request Terminated", 488: "Not Acceptable Here", 491: "Request Pending", 500: "Server Internal Error",
		501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
		600: "Busy Everywhere", 603: "Decline", 604: "Does Not Exist Anywhere", 606: "Not Acceptable",
	}
	if p, ok := phrases[status]; ok {
		return p
	}
	return "Failure"
}
